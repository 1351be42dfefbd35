"""What a command's row in the table of handlers says."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsar_proto.commands import error_frame
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from server.connection import Connection

Run = Callable[["Connection", Any], Coroutine[Any, Any, None] | None]
"""(connection, the command's own message). Answers at once, or returns what answers later: an unstarted coroutine.
Raises PulsarError for what the client is to be told, MalformedFrame for what closes the connection."""

Refuse = Callable[[Any, pb.ServerError.ValueType, str], bytes]
"""(the command's own message, ServerError code, text) -> the frame that says so."""


def error_answer(body: Any, code: pb.ServerError.ValueType, text: str) -> bytes:
    """ERROR with the request's id: how most commands are refused."""
    return error_frame(body.request_id, code, text)


class Handler(NamedTuple):
    field: str
    """The command's field in BaseCommand."""
    run: Run
    refuse: Refuse | None = error_answer
    """None: the command has no answer at all."""
    changes_state: bool = False
    """True: once begun it runs to its end although the connection is lost, so that no topic is left half changed."""
