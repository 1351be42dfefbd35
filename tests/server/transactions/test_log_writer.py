"""When records become an entry, and how that is counted."""

from collections.abc import Callable

import pytest

from magnetar.server.transactions.batch_counters import BatchCounters, Flush
from magnetar.server.transactions.log_writer import Batching, LogWriter
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.records.batched_log import batch_entry

RECORD = b"\x08" + 9 * b"r"


class Ledger:
    """Keeps what is appended, and confirms nothing."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def add_entries(self, payloads: list[bytes], done: Callable[[AddResult], None]) -> None:
        self.entries += payloads


@pytest.mark.parametrize(
    ("limits", "large", "reason", "batches"),
    [
        (Batching(2, 1_000, 3_600_000), b"", Flush.MAX_RECORDS, 1),
        (Batching(100, 25, 3_600_000), b"", Flush.MAX_SIZE, 1),
        (Batching(100, 1_000, 3_600_000), 1_000 * b"l", Flush.LARGE_DATA, 1),
        (None, b"", None, 0),
    ],
)
async def test_a_batch_counts_by_what_made_it_an_entry(
    limits: Batching | None, large: bytes, reason: Flush | None, batches: int
) -> None:
    ledger, counters = Ledger(), BatchCounters()
    writer = LogWriter(ledger, limits, counters)
    for record in (RECORD, RECORD, *([large] if large else [RECORD])):
        writer.append(record, lambda outcome: None)
    assert counters.flushes == {each: int(each is reason) for each in Flush}
    assert (counters.records.count, counters.records.sum) == (batches, 2 * batches)
    assert (counters.sizes.count, counters.sizes.sum) == (batches, 2 * len(RECORD) * batches)
    assert counters.delays_s.count == batches
    if limits is not None:
        assert ledger.entries == [batch_entry([RECORD, RECORD]), *([large] if large else [])]
    writer.flush()
    if limits is not None and not large:
        assert counters.flushes[Flush.MAX_DELAY] == 1
