"""Where a SEEK goes."""

from pulsar_proto.ids import EARLIEST, LATEST, Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb


def position_of(message_id: pb.MessageIdData) -> Position:
    """Latest is recognised by the ledger alone: C++ keeps 48 bits of the entry id (NonDurableCursorImpl)."""
    position = Position(signed64(message_id.ledgerId), signed64(message_id.entryId))
    if position.ledger_id == LATEST.ledger_id:
        return LATEST
    return EARLIEST if position.ledger_id < 0 else position
