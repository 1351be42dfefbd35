"""The way of receipts from a topic to the client that sent the messages: as frames to a client of the binary protocol,
or as ids to code of this broker that publishes by calls."""

from collections.abc import Sequence
from typing import Protocol

from magnetar.server.topics.client_connection import ClientConnection
from pulsar_proto.wire.frame_encoders import Receipt, ReceiptEncoder


class ReceiptWriter(Protocol):
    """Takes the receipts of one producer, in the order of its SENDs. Both methods are called on the event loop's thread
    and must not call the topic."""

    def write_run(self, receipts: Sequence[Receipt], ledger_id: int, first_entry_id: int) -> None:
        """Takes the receipts of SENDs that are stored as consecutive entries of a ledger."""

    def write_unstored(self, receipts: Sequence[Receipt], ledger_id: int, entry_id: int) -> None:
        """Takes the receipts of SENDs that have no entry of their own. All of them carry one position: (-1, -1) for a
        duplicate, and the topic's own place for messages of a non-persistent topic."""


class FramedReceipts:
    """Writes receipts as SEND_RECEIPT frames to a client's connection. Implements `ReceiptWriter`."""

    __slots__ = ("_cnx", "_encoder")

    def __init__(self, cnx: ClientConnection, producer_id: int) -> None:
        self._cnx = cnx
        self._encoder = ReceiptEncoder(producer_id)

    def write_run(self, receipts: Sequence[Receipt], ledger_id: int, first_entry_id: int) -> None:
        if len(receipts) == 1:
            # Where many topics get a few messages each, most groups have one message, and `encode` is quicker for one.
            self._cnx.write(self._encoder.encode(*receipts[0], ledger_id, first_entry_id))
        else:
            self._cnx.write(self._encoder.encode_run(receipts, ledger_id, first_entry_id))

    def write_unstored(self, receipts: Sequence[Receipt], ledger_id: int, entry_id: int) -> None:
        encode = self._encoder.encode
        self._cnx.write(b"".join([encode(*receipt, ledger_id, entry_id) for receipt in receipts]))
