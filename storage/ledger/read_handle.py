"""The handle of a ledger for reading."""

from magnetar.storage.ledger.ledger_errors import IncorrectParameter, ReadFault
from magnetar.storage.ledger.replica_reader import ReplicaReader
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState

READ_BYTES_MAX = 5 * 1024 * 1024
"""How many bytes one read returns at most unless the caller says otherwise (BookKeeper's maxBatchReadSize). One entry
is returned however large it is."""


class ReadHandle:
    """A ledger for reading: closed, or written by somebody else and readable up to the LAC that was known when it was
    opened."""

    __slots__ = ("_reader", "last_add_confirmed", "ledger_id", "length", "metadata", "payload_offset")

    def __init__(
        self, metadata: LedgerMetadata, last_add_confirmed: int, length: int, reader: ReplicaReader, payload_offset: int
    ) -> None:
        self.ledger_id = metadata.ledger_id
        self.metadata = metadata
        self.last_add_confirmed = last_add_confirmed
        """The highest entry id that may be read; -1 for an empty ledger."""
        self.length = length
        """Payload bytes of the ledger. While the ledger is being written this is a recent value."""
        self.payload_offset = payload_offset
        """How many bytes stand before the payload in each stored entry."""
        self._reader = reader

    @property
    def is_closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    async def read_unconfirmed(self, first: int, last: int, max_bytes: int = READ_BYTES_MAX) -> list[bytes]:
        """Returns stored entries like `read`, but also entries beyond the LAC. Such entries may be missing
        (NoSuchEntry), or turn out not to be part of the ledger."""
        check_range(self.ledger_id, first, last, last)
        return await self._reader.read(self.metadata, first, last, max_bytes)

    async def read(self, first: int, last: int, max_bytes: int = READ_BYTES_MAX) -> list[bytes]:
        """Returns whole stored entries from `first` on, in order and without a gap, after verifying their ids and
        digests.

        Returns at least one entry. It returns fewer than asked for when `max_bytes` is reached (only a first entry may
        be larger), at a change of the ensemble, and before an entry that cannot be read together with the others; the
        caller reads on from there. Raises IncorrectParameter, ReadFault for a range beyond the LAC, else the
        LedgerError that says most about why no replica returned the first entry.
        """
        check_range(self.ledger_id, first, last, self.last_add_confirmed)
        return await self._reader.read(self.metadata, first, last, max_bytes)


def check_range(ledger_id: int, first: int, last: int, last_add_confirmed: int) -> None:
    """Checks the range of a read. Raises IncorrectParameter unless 0 <= first <= last, and ReadFault when `last` is
    beyond the last confirmed entry."""
    if not 0 <= first <= last:
        raise IncorrectParameter(f"ledger {ledger_id}: entries {first} to {last}")
    if last > last_add_confirmed:
        raise ReadFault(f"ledger {ledger_id}: entry {last} is beyond the last confirmed {last_add_confirmed}")
