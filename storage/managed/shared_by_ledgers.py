"""The objects that all managed ledgers of a process share. The factory makes them and hands them to each managed
ledger."""

from collections.abc import Callable
from dataclasses import dataclass, field

from magnetar.metadata.store import MetadataStore
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.ledger_reaper import LedgerReaper
from magnetar.storage.managed.metadata_access import MetadataAccess
from magnetar.storage.managed.read_handles import ReadHandles
from magnetar.storage.managed.tail_cache import TailCache
from pulsar_proto.latency_summary import LatencySummary


@dataclass(frozen=True, slots=True)
class SharedByLedgers:
    """The stores, caches and clocks of the process, and the callback for cursors that have changes."""

    metadata: MetadataStore
    access: MetadataAccess
    bookkeeper: BookKeeper
    cache: TailCache
    handles: ReadHandles
    reaper: LedgerReaper
    clocks: Clocks
    label_of: Callable[[str], str]
    """Returns how log lines and errors call the managed ledger of a name."""
    on_dirty: Callable[[Cursor], None]
    """Called when a cursor has changes for the tick to store."""
    write_latency: LatencySummary = field(default_factory=LatencySummary)
    """The time from an append to its confirmation, of all managed ledgers."""
