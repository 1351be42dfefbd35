"""How the ledger client talks to one bookie. The same calls go over the wire or, in standalone, stay in the process.

The calls move groups: all entries that one append hands over, all entries of one read. Return codes are those of
BookKeeper's v2 protocol (`pulsar_proto.wire.bookie_wire.BookieRc`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

AddDone = Callable[[Sequence[int], int], None]
"""A function that the channel calls as done(entry ids, return code), on the loop's thread, never from inside
add_entries. The channel may call the function several times; together the calls name each entry id exactly once."""


class BookieChannel(Protocol):
    """The requests that one client makes to one bookie."""

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        """Stores entries, each with header and digest as `entry_digest` makes them, and calls `done(ids, EOK)` after
        they are durable.

        Never raises for a fault of the bookie or the network: `done` gets such a fault as a return code. `entry_ids` is
        usually a `range`. `flags` is `AddFlags.NONE` or `RECOVERY_ADD`, with `HIGH_PRIORITY` (the bits of v2).
        """

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        """Returns one stored entry; `entry_id` -1 asks for the last one. With FENCING the bookie fences the ledger
        durably before it answers, also when it then has no such entry. Raises BookieError (ENOLEDGER, ENOENTRY, EUA,
        EIO, ...); ConnectionError or TimeoutError when the bookie gives no answer."""

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Returns stored entries from `first_entry_id` on without a gap: at least one, fewer than asked for at a limit,
        at the end or before an unreadable entry. The answer may hold entries beyond the LAC, which the caller has to
        leave out. Raises the errors of `read_entry` when the first entry cannot be read."""


class LacAnswer(NamedTuple):
    """The answer to READ_LAC: the body of the last WRITE_LAC, and the bookie's last entry. Either part may be
    missing."""

    explicit: bytes | None
    last_entry: bytes | None


class Polled(NamedTuple):
    """The answer to a long poll."""

    last_add_confirmed: int
    entry_id: int
    """The id of the answer's entry; -1 when the answer holds no entry, because nothing is new or because another bookie
    has the next entry."""
    entry: bytes | None


@runtime_checkable
class LacChannel(Protocol):
    """The requests that only protocol v3 has. The methods raise BookieError, ConnectionError, TimeoutError."""

    async def read_lac(self, ledger_id: int) -> LacAnswer: ...

    async def write_lac(self, ledger_id: int, lac: int, master_key: bytes, body: bytes) -> None: ...

    async def long_poll(self, ledger_id: int, previous_lac: int, timeout_ms: int) -> Polled: ...
