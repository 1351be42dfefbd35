"""Consecutive entries of one ledger, as they are stored."""


class EntryRun:
    """`entries` are whole stored entries (header, digest, payload), ids first_entry_id, +1, ...; each payload starts at
    `payload_offset`. An empty run says that nothing is there yet. Not to be changed: lists may be shared."""

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
        """Where the next read goes on: one after the last entry."""
        return self.first_entry_id + len(self.entries)

    def __repr__(self) -> str:
        return f"EntryRun({self.ledger_id}:{self.first_entry_id}+{len(self.entries)})"
