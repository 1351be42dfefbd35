"""What all managed ledgers of a process have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from magnetar.metadata.store import MetadataStore
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.ledger_reaper import LedgerReaper
from magnetar.storage.managed.read_handles import ReadHandles
from magnetar.storage.managed.tail_cache import TailCache


@dataclass(frozen=True, slots=True)
class SharedByLedgers:
    metadata: MetadataStore
    bookkeeper: BookKeeper
    cache: TailCache
    handles: ReadHandles
    reaper: LedgerReaper
    clocks: Clocks
    on_dirty: Callable[[Cursor], None]
    """A cursor has changes for the tick to store."""
