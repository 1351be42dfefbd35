"""What a command's row in the table of handlers says."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import error_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

RunCommand = Callable[["Connection", Any], Awaitable[None] | None]
"""(connection, the command's own message). Answers at once, or returns what is to be awaited and answers at its end.
Raises PulsarError for what the client is to be told, MalformedFrame for what closes the connection."""

AnswerCommand = Callable[["Connection", Any], None]
"""(connection, the command's own message): says that what `run` returned has ended well."""

RefuseCommand = Callable[[Any, pb.ServerError.ValueType, str], bytes]
"""(the command's own message, ServerError code, text) -> the frame that says so."""


def error_answer(body: Any, code: pb.ServerError.ValueType, text: str) -> bytes:
    """ERROR with the request's id: how most commands are refused."""
    return error_frame(body.request_id, code, text)


class CommandHandler(NamedTuple):
    field: str
    """The command's field in BaseCommand."""
    run: RunCommand
    refuse: RefuseCommand | None = error_answer
    """None: the command has no answer at all."""
    answer: AnswerCommand | None = None
    """None: what `run` returns has answered itself."""
    changes_state: bool = False
    """True: once begun it runs to its end although the connection is lost, so that no topic is left half changed."""
