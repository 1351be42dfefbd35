"""The requests of one connection that could not be answered at once: a bounded number of tasks, and the answer that a
client gets when a request fails."""

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.server.protocol.command_handler import CommandHandler
from magnetar.server.protocol.connection_rules import ConnectionState
from pulsar_proto.errors import MalformedFrame, PulsarError
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.text import NotText, check_text

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

log = logging.getLogger(__name__)

REQUESTS_MAX = 10_000
"""How many requests of one connection may be in progress. When there are that many, a further command that has an
answer is refused with TooManyRequests before its handler sees the command, so that nothing is left half done."""

TEXT_CHARACTERS_MAX = 16 << 10
"""The length at which an error's text is cut off. Such a text can be long, because the refusal of a schema quotes the
schemas with which it is incompatible."""

Work = Awaitable[Any]


class _Sharing:
    """Commands that came one after the other and wait for the same future, such as the acknowledgements of one
    transaction. One callback answers them all."""

    __slots__ = ("commands", "count", "outcome")

    def __init__(self, outcome: "asyncio.Future[Any]") -> None:
        self.outcome = outcome
        self.commands: list[tuple[CommandHandler, Any]] = []
        self.count = 0
        """How many requests the commands are."""


class Requests:
    """The requests of one connection that are in progress. Commands do not wait for the requests before them. When the
    connection is lost, requests that only read are cancelled, and requests that change state run to their end as tasks
    of the broker."""

    __slots__ = ("_in_progress", "_sharing", "_tasks")

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_progress = 0
        self._sharing: _Sharing | None = None
        """The last commands that wait for the same future, until it is done."""

    def run(self, cnx: "Connection", handler: CommandHandler, body: Any, is_ascii: bool) -> None:
        """Handles one command, at once or by a task. A command with a string that is not UTF-8 is refused before its
        handler gets it; `is_ascii` says that all bytes of the command are ASCII, so that it has no such string. Raises
        MalformedFrame for a command that closes the connection."""
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s: %s %s", cnx.remote_address, handler.field, _told(body))
        if self._in_progress >= REQUESTS_MAX and _refuses_for_load(cnx, handler, body):
            return
        try:
            if not is_ascii:
                check_text(body)
            work = handler.run(cnx, body)
        except MalformedFrame:
            raise
        except NotText as error:
            refusal = _refusal(handler, body, pb.MetadataError, str(error))
            cnx.write(refusal)
            if not refusal or cnx.session.state is not ConnectionState.CONNECTED:
                raise MalformedFrame(f"{handler.field}: {error}") from error
        except Exception as error:
            _refuse(cnx, handler, body, error)
        else:
            if work is not None:
                self._start(cnx, handler, body, work)

    def cancel(self) -> None:
        """Called when the connection is lost: cancels the requests that only read."""
        for task in self._tasks:
            task.cancel()

    def has_room(self, count: int) -> bool:
        """Whether so many more requests may be in progress."""
        return self._in_progress + count <= REQUESTS_MAX

    def wait(
        self, cnx: "Connection", handler: CommandHandler, body: Any, outcome: "asyncio.Future[Any]", count: int
    ) -> None:
        """Answers when the outcome comes. `body` stands for `count` commands, for which there is room, and the handler
        answers all of them."""
        self._in_progress += count
        sharing = self._sharing
        if sharing is None or sharing.outcome is not outcome:
            sharing = self._sharing = _Sharing(outcome)
            outcome.add_done_callback(partial(self._outcome_came, cnx, sharing))
        sharing.commands.append((handler, body))
        sharing.count += count

    def _start(self, cnx: "Connection", handler: CommandHandler, body: Any, work: Work) -> None:
        if isinstance(work, asyncio.Future):  # the outcome of something that is under way needs no task to wait for it
            self.wait(cnx, handler, body, work, 1)
            return
        self._in_progress += 1
        task = cnx.broker.spawn(_answer(cnx, handler, body, work))
        if not handler.changes_state:
            self._tasks.add(task)
        task.add_done_callback(partial(self._ended, work))

    def _outcome_came(self, cnx: "Connection", sharing: _Sharing, outcome: "asyncio.Future[Any]") -> None:
        if self._sharing is sharing:
            self._sharing = None
        self._in_progress -= sharing.count
        if outcome.cancelled():
            return
        error = outcome.exception()
        for handler, body in sharing.commands:
            if error is not None:
                _failed(cnx, handler, body, error)
            elif handler.answer is not None:
                handler.answer(cnx, body, outcome.result())

    def _ended(self, work: Work, task: asyncio.Task[None]) -> None:
        self._in_progress -= 1
        self._tasks.discard(task)
        _drop(work)  # A task that is cancelled before its first step leaves its coroutine unstarted.


async def _answer(cnx: "Connection", handler: CommandHandler, body: Any, work: Work) -> None:
    try:
        result = await work
        if handler.answer is not None:
            handler.answer(cnx, body, result)
    except Exception as error:
        _failed(cnx, handler, body, error)


def _failed(cnx: "Connection", handler: CommandHandler, body: Any, error: BaseException) -> None:
    if isinstance(error, MalformedFrame):
        cnx.close(str(error), logging.WARNING)
    else:
        _refuse(cnx, handler, body, error)


TOLD = ("topic", "subscription", "producer_id", "consumer_id", "request_id", "messagePermits", "ack_type")
"""The fields of a command that a log at the level DEBUG shows. Fields that may hold a secret or text of an application
are not among them."""


def _told(body: Any) -> str:
    """Returns the fields TOLD of a command, as far as it has them."""
    fields = body.DESCRIPTOR.fields_by_name
    return " ".join(f"{name}={getattr(body, name)}" for name in TOLD if name in fields)


def _refuses_for_load(cnx: "Connection", handler: CommandHandler, body: Any) -> bool:
    """Refuses a command that has an answer when too many requests are in progress. Returns whether the command was
    refused. A command without an answer (FLOW, most ACKs) has nothing to wait for, so it is handled however many
    requests are in progress."""
    text = f"More than {REQUESTS_MAX} requests in progress"
    refusal = _refusal(handler, body, pb.TooManyRequests, text)
    cnx.write(refusal)
    return bool(refusal)


def _refuse(cnx: "Connection", handler: CommandHandler, body: Any, error: BaseException) -> None:
    """Tells the client that its command failed. If the command has no answer that could say so, or the client is not
    connected yet, the connection is closed as well: a client without an answer would wait for ever."""
    if isinstance(error, PulsarError):
        code = error.code
        log.info("%s: %s refused: %s", cnx.remote_address, handler.field, error)
    else:
        code = pb.UnknownError
        log.error("%s: %s failed", cnx.remote_address, handler.field, exc_info=error)
    text = (str(error) or type(error).__name__)[:TEXT_CHARACTERS_MAX]
    cnx.write(_refusal(handler, body, code, text))
    if handler.refuse is None or cnx.session.state is not ConnectionState.CONNECTED:
        cnx.close(f"{handler.field} failed: {text}", logging.WARNING)


def _refusal(handler: CommandHandler, body: Any, code: pb.ServerError.ValueType, text: str) -> bytes:
    """Returns the frame that refuses the command. Returns no bytes for a command that has no answer, or whose client
    asked for no answer."""
    return b"" if handler.refuse is None else handler.refuse(body, code, text)


def _drop(work: Work) -> None:
    """Closes a coroutine that was never started, because otherwise Python would warn that it was never awaited."""
    if asyncio.iscoroutine(work):
        work.close()
