"""What a managed ledger uses of the ledger that it writes.

The parts of a managed ledger name this protocol instead of `ledger_handle.WriteHandle`, which implements it. A compiled
module refuses an object of any other class than the class that it names (`hatch_build.py`), and tests of managed
ledgers have a ledger of their own.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.read_handle import READ_BYTES_MAX


class LedgerWriter(Protocol):
    """A ledger to which only this process appends; `WriteHandle` says what each call does."""

    ledger_id: int
    payload_offset: int

    @property
    def last_add_confirmed(self) -> int: ...

    @property
    def last_add_pushed(self) -> int: ...

    @property
    def is_open(self) -> bool: ...

    def append(self, payloads: Sequence[bytes], done: Callable[[Append], None]) -> Append: ...

    async def read(self, first: int, last: int, max_bytes: int = READ_BYTES_MAX) -> list[bytes]: ...

    async def close(self) -> None: ...

    async def abandon(self) -> None: ...
