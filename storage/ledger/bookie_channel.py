"""How the ledger client talks to one bookie: the same verbs on the wire and, in standalone, in one process.

The verbs move groups: all entries that one append hands over, all entries of one read. Return codes are those of
BookKeeper's v2 protocol (`pulsar_proto.bookie_wire.BookieRc`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

AddDone = Callable[[Sequence[int], int], None]
"""(entry ids, return code). Called on the loop's thread, never from inside add_entries. May come in several calls
that together name each entry id exactly once."""


class BookieChannel(Protocol):
    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        """Stores entries (each with header and digest, as `entry_digest` makes them); `done(ids, EOK)` after they are
        durable. Never raises for the bookie's or network's faults: these reach `done` as a code. `entry_ids` is a
        `range` in the usual case. `flags` is `AddFlags.NONE` or `RECOVERY_ADD`, with `HIGH_PRIORITY` (bits of v2)."""

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        """One stored entry; `entry_id` -1 asks for the last. With FENCING the ledger is fenced durably before any
        answer, also before an error. Raises BookieError (ENOLEDGER, ENOENTRY, EUA, EIO, ...)."""

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Stored entries from `first_entry_id` on without a gap: at least one, fewer than asked at a limit, at the end
        or before an unreadable entry. Does not stop at the LAC: the caller clips. Raises BookieError when the first
        cannot be read."""


class LacAnswer(NamedTuple):
    """READ_LAC: the body of the last WRITE_LAC, and the bookie's last entry; either may be missing."""

    explicit: bytes | None
    last_entry: bytes | None


class Polled(NamedTuple):
    """A long poll's answer."""

    last_add_confirmed: int
    entry_id: int
    """-1 without an entry: nothing new, or another bookie has it."""
    entry: bytes | None


@runtime_checkable
class LacChannel(Protocol):
    """What only protocol v3 has. Methods raise BookieError, ConnectionError, TimeoutError."""

    async def read_lac(self, ledger_id: int) -> LacAnswer: ...

    async def write_lac(self, ledger_id: int, lac: int, master_key: bytes, body: bytes) -> None: ...

    async def long_poll(self, ledger_id: int, previous_lac: int, timeout_ms: int) -> Polled: ...
