"""What all managed ledgers of a process have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from metadata.store import MetadataStore
from storage.ledger.client import BookKeeper
from storage.managed.clocks import Clocks
from storage.managed.cursor import Cursor
from storage.managed.ledger_reaper import LedgerReaper
from storage.managed.read_handles import ReadHandles
from storage.managed.tail_cache import TailCache


@dataclass(frozen=True, slots=True)
class Shared:
    metadata: MetadataStore
    bookkeeper: BookKeeper
    cache: TailCache
    handles: ReadHandles
    reaper: LedgerReaper
    clocks: Clocks
    on_dirty: Callable[[Cursor], None]
    """A cursor has changes for the tick to store."""
