"""Where a SEEK, and a consumer that names its first message, want to stand."""

from collections.abc import Sequence
from typing import NamedTuple

from pulsar_proto.ids import EARLIEST, LATEST, Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb


def position_of(message_id: pb.MessageIdData) -> Position:
    """Returns the position that a client means by a message id. Latest is recognised by the ledger alone, because the
    C++ client keeps 48 bits of the entry id (NonDurableCursorImpl does the same)."""
    position = Position(signed64(message_id.ledgerId), signed64(message_id.entryId))
    if position.ledger_id == LATEST.ledger_id:
        return LATEST
    return EARLIEST if position.ledger_id < 0 else position


class SeekTarget(NamedTuple):
    """A position; or a publish time in ms, where the position is None. `ack_set` are the indexes that are left of a
    batch at the position."""

    position: Position | None
    publish_time_ms: int = 0
    ack_set: Sequence[int] = ()


def target_of(command: pb.CommandSeek) -> SeekTarget:
    """Returns where the command asks to go."""
    if command.HasField("message_id"):
        return SeekTarget(position_of(command.message_id), ack_set=command.message_id.ack_set)
    return SeekTarget(None, command.message_publish_time)
