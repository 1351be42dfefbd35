"""Consecutive entries of one ledger, as they are stored."""


class EntryRun:
    """A run of entries. `entries` are whole stored entries (header, digest, payload) with the ids first_entry_id,
    first_entry_id + 1, ... Each payload starts at `payload_offset`. A run without entries says that nothing is there
    yet. The list must not be changed, because several runs may share it."""

    __slots__ = ("entries", "first_entry_id", "ledger_id", "payload_offset")

    def __init__(self, ledger_id: int, first_entry_id: int, entries: list[bytes], payload_offset: int) -> None:
        self.ledger_id = ledger_id
        self.first_entry_id = first_entry_id
        self.entries = entries
        self.payload_offset = payload_offset

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def end_entry_id(self) -> int:
        """The entry id at which the next read begins: one after the last entry."""
        return self.first_entry_id + len(self.entries)

    def __repr__(self) -> str:
        return f"EntryRun({self.ledger_id}:{self.first_entry_id}+{len(self.entries)})"
