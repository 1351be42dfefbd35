"""What a bookie reports of itself; `server/programs/bookie/bookie_metrics.py` names it as Apache's does."""

from typing import NamedTuple


class BookieStats(NamedTuple):
    """Counters since the start, and what is in memory and on disk now; sizes are bytes."""

    mode: str
    ledgers: int
    added_entries: int
    added_bytes: int
    rejected_groups: int
    journal_batches: int
    journal_bytes: int
    journal_busy_seconds: float
    journal_queue_bytes: int
    write_cache_bytes: int
    waiting_adds_bytes: int
    checkpoints: int
    entry_logs: int
    entry_log_bytes_written: int
    read_cache_hits: int
    read_cache_misses: int
    read_ahead_cache_bytes: int
    reclaimed_bytes: int
    compacted_bytes: int
    disk_used_share: float | None
