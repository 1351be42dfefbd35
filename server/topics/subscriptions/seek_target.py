"""Determines the position that a SEEK asks for, or at which a new consumer asks to begin."""

from collections.abc import Sequence
from typing import NamedTuple

from pulsar_proto.ids import EARLIEST, LATEST, Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb


def position_of(message_id: pb.MessageIdData) -> Position:
    """Returns the position that a message id of a client stands for. LATEST is recognised by the ledger id alone,
    because the C++ client keeps only 48 bits of the entry id (Apache's NonDurableCursorImpl also looks at the ledger id
    alone)."""
    position = Position(signed64(message_id.ledgerId), signed64(message_id.entryId))
    if position.ledger_id == LATEST.ledger_id:
        return LATEST
    return EARLIEST if position.ledger_id < 0 else position


class SeekTarget(NamedTuple):
    """A position, or, if the position is None, a publish time in ms. If the entry at the position is a batch, `ack_set`
    holds the batch indexes that stay unacknowledged."""

    position: Position | None
    publish_time_ms: int = 0
    ack_set: Sequence[int] = ()


def target_of(command: pb.CommandSeek) -> SeekTarget:
    """Returns the position or the publish time that a SEEK asks for."""
    if command.HasField("message_id"):
        return SeekTarget(position_of(command.message_id), ack_set=command.message_id.ack_set)
    return SeekTarget(None, command.message_publish_time)


def start_asked_by(command: pb.CommandSubscribe) -> Position | None:
    """Returns where a new subscription of this consumer begins: EARLIEST, the position of a message, or None for new
    messages only."""
    if command.HasField("start_message_id"):
        position = position_of(command.start_message_id)
        return None if position == LATEST else position
    return EARLIEST if command.initialPosition == pb.CommandSubscribe.Earliest else None
