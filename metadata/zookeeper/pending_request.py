"""A request of the ZooKeeper client that has no answer yet, and the ways in which a request may end."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from magnetar.metadata.zookeeper.jute_codec import CHILDREN_AT_ONCE, ZkStat, parse_children, parse_stat
from magnetar.metadata.zookeeper.lost_answer_rules import Write


class LinkLostError(Exception):
    """The link to the server was lost while a request was waiting, and this request is not repeated on the next
    link."""


class Reply(NamedTuple):
    """A server's answer. `payload` are the bytes behind the header."""

    error: int
    zxid: int
    payload: bytes


class Settled(NamedTuple):
    """The answer was lost, but the write was found to be done. `path` is the record that its last op made or
    changed."""

    path: str
    stats: list[ZkStat | None]


RequestOutcome = Reply | Settled


class PendingRequest:
    """A request, from the caller's call until the answer or the failure.

    `path` is for messages. A request without `write` is a read. An `internal` request is never sent on another link; it
    ends with the link that it was meant for. `then`, if given, is called with the answer.
    """

    __slots__ = ("body", "bound", "deadline", "future", "internal", "owner", "path", "sent_at", "then", "write")

    def __init__(
        self,
        body: bytes,
        path: str,
        future: "asyncio.Future[RequestOutcome]",
        deadline: float,
        *,
        write: Write | None = None,
        internal: bool = False,
        then: Callable[[Reply], None] | None = None,
    ) -> None:
        self.body = body
        self.path = path
        self.future = future
        self.deadline = deadline
        self.write = write
        self.internal = internal
        self.then = then
        self.sent_at = 0.0
        self.bound = 0
        """The last zxid that was seen before the answer was lost. It is set when the answer was lost."""
        self.owner = 0
        """The id of the session that sent the request. It is set when the answer was lost."""

    def finish(self, outcome: RequestOutcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)
        if self.then is not None and isinstance(outcome, Reply):
            self.then(outcome)  # also when the caller no longer waits

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            if self.internal:
                self.future.exception()  # so that asyncio does not complain about an error that nobody retrieves


def stat_or_none(outcome: RequestOutcome | BaseException) -> ZkStat | None:
    """Returns the Stat in the answer to an exists; None when there is no record, or no answer."""
    if isinstance(outcome, Reply) and not outcome.error:
        return parse_stat(outcome.payload)
    return None


async def read_children(payload: bytes) -> list[str]:
    """Returns the names in the answer to a getChildren, in the order of the answer.

    Lets other tasks run in between, because the list may be long.
    """
    names: list[str] = []
    for some in parse_children(payload):
        names += some
        if len(some) == CHILDREN_AT_ONCE:
            await asyncio.sleep(0)
    return names
