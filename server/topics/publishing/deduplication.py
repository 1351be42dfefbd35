"""Deduplication of one topic: the table of what was stored, and the cursor `pulsar.dedup` that keeps it over restarts.

The cursor's mark-delete says up to where the log is summed up in the cursor's properties (producer name -> sequence
id); what stands behind it is read again when the topic is loaded. A snapshot moves both, after so many entries or so
much time, and on a clean close, so that the next load has nothing to read.

Sources: MessageDeduplication (recoverSequenceIdsMap, replayCursor, takeSnapshot, purgeInactiveProducers); facts 4.2 and
6.3.
"""

import logging
import time
from collections.abc import Callable, Iterator

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.publishing.dedup_rules import DedupTable
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import LATEST, Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import parse_metadata

log = logging.getLogger(__name__)

DEDUP_CURSOR = "pulsar.dedup"

SNAPSHOT_PAUSE_SECONDS = 1.0
"""Between two snapshots for the number of entries, however fast messages come: each is a record of all producers."""

REPLAY_ENTRIES = 1_000
REPLAY_BYTES = 5 * 1024 * 1024
"""Of one read while the log behind the snapshot is looked through."""

CANNOT_TELL = "Cannot determine whether the message is a duplicate at this time"


class Deduplication:
    """Made by `open`; every method is called on the loop's thread. Times are ms of the time of day."""

    def __init__(self, topic_name: str, ledger: ManagedLedger, cursor: Cursor, settings: TopicSettings) -> None:
        self.table = DedupTable(settings.broker_deduplication_max_number_of_producers)
        self._topic_name = topic_name
        self._ledger = ledger
        self._cursor = cursor
        self._entries_interval = settings.broker_deduplication_entries_interval
        self._inactivity_s = settings.broker_deduplication_producer_inactivity_timeout_minutes * 60
        self._known_upto = cursor.mark_delete
        """The table says all about the log up to here, once it is complete."""
        self.is_complete = False
        """The table says all about the log behind the snapshot, by `replay`. Until then no snapshot is taken."""
        self._entries_since_snapshot = 0
        self._snapshot_s = 0.0
        self._counted_s = -SNAPSHOT_PAUSE_SECONDS
        """When the last snapshot for the number of entries was taken."""
        self._release: Callable[[], None] | None = None
        """Lets the log behind the last stored snapshot go."""

    @classmethod
    async def open(
        cls, topic_name: str, ledger: ManagedLedger, settings: TopicSettings, now_s: float
    ) -> "Deduplication":
        """What the last snapshot says of the producers. Where deduplication was off, it begins with what the log
        confirms from now on. `replay` comes next. Raises ManagedLedgerError."""
        cursor = await ledger.open_cursor(DEDUP_CURSOR, LATEST)
        self = cls(topic_name, ledger, cursor, settings)
        self._snapshot_s = now_s
        self.table.replay(cursor.position_properties.items(), now_s)
        return self

    @staticmethod
    def is_stored(ledger: ManagedLedger) -> bool:
        """Whether there is something to remove."""
        return DEDUP_CURSOR in ledger.cursors

    @staticmethod
    async def remove(ledger: ManagedLedger) -> None:
        """Deduplication is off: its cursor would hold the log. Raises ManagedLedgerError."""
        if Deduplication.is_stored(ledger):
            await ledger.delete_cursor(DEDUP_CURSOR)

    async def replay(self, now_s: float) -> None:
        """Looks through the log behind the last snapshot, up to its end. Raises ManagedLedgerError."""
        ledger = self._ledger
        known_upto = self._cursor.mark_delete
        at = ledger.next_position(known_upto)
        count = 0
        while not ledger.is_after_last(at):
            run = await ledger.read(at, REPLAY_ENTRIES, REPLAY_BYTES)
            if not run.entries:
                break
            self.table.replay(_sequence_ids(run), now_s)
            known_upto = Position(run.ledger_id, run.first_entry_id + len(run.entries) - 1)
            count += len(run.entries)
            at = ledger.next_position(known_upto)
        self._known_upto = max(self._known_upto, known_upto)
        self.is_complete = True
        if count:
            log.info("%s: looked through %d entries for deduplication", self._topic_name, count)
        self._count(count)

    # --- on the way of messages --------------------------------------------------------------------------------------

    def confirmed(self, name: str, highest: int, last: Position, entries: int) -> None:
        """The log took `entries` entries of a producer, up to the sequence id `highest` (negative: nothing that counts)
        and the position `last`."""
        if highest >= 0:
            self.table.stored(name, highest)
        self._known_upto = max(self._known_upto, last)
        self._count(entries)

    def _count(self, entries: int) -> None:
        self._entries_since_snapshot += entries
        if self._entries_since_snapshot >= self._entries_interval:
            now_s = time.monotonic()
            if now_s - self._counted_s >= SNAPSHOT_PAUSE_SECONDS:
                self._counted_s = now_s
                self.take_snapshot()

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float, snapshot_interval_seconds: int) -> None:
        """Forgets producers that left long ago; takes a snapshot when the last one is old."""
        forgotten = self.table.forget_inactive(now_s - self._inactivity_s)
        if forgotten:
            log.info("%s: forgot %d inactive producers", self._topic_name, forgotten)
        if now_s - self._snapshot_s >= snapshot_interval_seconds:
            self._snapshot_s = now_s
            self.take_snapshot()
        elif self._release is not None:
            self._cursor.when_persisted(self._snapshot_stored)

    def take_snapshot(self) -> None:
        """Given to the cursor, which stores it in the background. Until then the log itself tells, and is held."""
        if not self.is_complete:
            return
        self._entries_since_snapshot = 0
        position, cursor = self._known_upto, self._cursor
        if position <= cursor.mark_delete:
            return
        if self._release is None:
            self._release = self._ledger.hold(cursor.mark_delete)
        cursor.ack_cumulative(position.ledger_id, position.entry_id, None, self.table.snapshot())
        cursor.when_persisted(self._snapshot_stored)

    def _snapshot_stored(self, error: ManagedLedgerError | None) -> None:
        """After a failure the next look tries again."""
        if error is None and not self._cursor.is_dirty:
            self.let_go()

    def let_go(self) -> None:
        """Nothing is held (any more): what was taken is stored, or deduplication is turned off."""
        if self._release is not None:
            release, self._release = self._release, None
            release()


def chunk_counts(payload: bytes) -> bool:
    """Of a SEND that says it is a chunk: whether it is the last one of its message, which alone counts."""
    try:
        return _counts(parse_metadata(payload))
    except MalformedFrame:
        return True


def _counts(metadata: pb.MessageMetadata) -> bool:
    chunks = metadata.num_chunks_from_msg
    return not metadata.HasField("chunk_id") or chunks <= 0 or metadata.chunk_id == chunks - 1


def _sequence_ids(run: EntryRun) -> Iterator[tuple[str, int]]:
    for entry in run.entries:
        try:
            metadata = parse_metadata(entry, run.payload_offset)
        except MalformedFrame:
            continue  # nobody knows whose it is
        name = metadata.producer_name
        if isinstance(name, bytes):
            continue  # not UTF-8: no producer can have that name
        highest = max(signed64(metadata.highest_sequence_id), signed64(metadata.sequence_id))
        if highest >= 0 and _counts(metadata):
            yield name, highest
