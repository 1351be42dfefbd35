"""What the ZooKeeper client carries: a request on its way, and what it ends in."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from magnetar.metadata.zookeeper.jute_codec import CHILDREN_AT_ONCE, ZkStat, parse_children
from magnetar.metadata.zookeeper.lost_answer_rules import Write


class LinkLostError(Exception):
    """The link went while a request waited that is not repeated by itself."""


class Reply(NamedTuple):
    """A server's answer; `payload` starts after the header."""

    error: int
    zxid: int
    payload: bytes


class Settled(NamedTuple):
    """The answer was lost, but the write has been found done. `path` is the record that the last op made or changed."""

    path: str
    stats: list[ZkStat | None]


RequestOutcome = Reply | Settled


class PendingRequest:
    """A request. `path` stands in messages. One without `write` is a read; `internal` ones end with their link."""

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
        """Once its answer is lost: the last zxid that was seen before."""
        self.owner = 0
        """Once its answer is lost: the session that sent it."""

    def finish(self, outcome: RequestOutcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)
        if self.then is not None and isinstance(outcome, Reply):
            self.then(outcome)  # also when nobody waits any more

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            if self.internal:
                self.future.exception()  # nobody need look at it


async def read_children(payload: bytes) -> list[str]:
    """The names in the answer to a getChildren, as they came."""
    names: list[str] = []
    for some in parse_children(payload):
        names += some
        if len(some) == CHILDREN_AT_ONCE:
            await asyncio.sleep(0)
    return names
