"""A row of the table of handlers: how one command is handled, answered and refused."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import error_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

RunCommand = Callable[["Connection", Any], Awaitable[Any] | None]
"""`run(connection, the command's own message)` answers at once and returns None, or returns an awaitable that answers
at its end. Both the call and the awaitable may raise PulsarError, of which the client is told, and MalformedFrame,
which closes the connection. A command that comes as often as messages do returns a future, which costs no task."""

AnswerCommand = Callable[["Connection", Any, Any], None]
"""`answer(connection, the command's own message, the result of run's awaitable)` tells the client that `run` has
succeeded."""

RefuseCommand = Callable[[Any, pb.ServerError.ValueType, str], bytes]
"""`refuse(the command's own message, ServerError code, text)` returns the frame that tells the client of its
failure."""


def error_answer(body: Any, code: pb.ServerError.ValueType, text: str) -> bytes:
    """Returns the command ERROR with the request's id, by which most commands are refused."""
    return error_frame(body.request_id, code, text)


class CommandHandler(NamedTuple):
    """One row of the table of handlers."""

    field: str
    """The name of the command's field in BaseCommand."""
    run: RunCommand
    refuse: RefuseCommand | None = error_answer
    """Makes the frame of a refusal; None for a command that has no answer at all."""
    answer: AnswerCommand | None = None
    """Sends the answer after `run`; None when the work of `run` sends the answer itself."""
    changes_state: bool = False
    """True for a request that, once begun, runs to its end even if the connection is lost, so that no topic is left
    half changed."""
