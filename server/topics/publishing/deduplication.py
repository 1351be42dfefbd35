"""Deduplication of one topic: the table of stored sequence ids, and the cursor `pulsar.dedup`, in which the table
survives restarts.

The cursor's properties (producer name -> highest sequence id) sum up the log up to the cursor's mark-delete position.
When the topic is loaded, only the entries after that position are read. A snapshot writes the properties and moves the
position. Snapshots are taken after a number of entries, after a time, and when the topic closes; after a proper close
the next load has nothing to read.

Sources: MessageDeduplication (recoverSequenceIdsMap, replayCursor, takeSnapshot, purgeInactiveProducers).
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
"""The least time between two snapshots that are taken because of the number of entries. A snapshot writes a record of
all producers, so snapshots of a fast topic must not follow each other at once."""

REPLAY_ENTRIES = 1_000
REPLAY_BYTES = 5 * 1024 * 1024
"""The largest single read while the log after the snapshot is replayed."""

CANNOT_TELL = "Cannot determine whether the message is a duplicate at this time"


class Deduplication:
    """The deduplication of one topic. Use `open` to create the object. Every method is called on the loop's thread.
    Times are seconds of the monotonic clock."""

    def __init__(self, topic_name: str, ledger: ManagedLedger, cursor: Cursor, settings: TopicSettings) -> None:
        self.table = DedupTable(settings.broker_deduplication_max_number_of_producers)
        self._topic_name = topic_name
        self._ledger = ledger
        self._cursor = cursor
        self._entries_interval = settings.broker_deduplication_entries_interval
        self._inactivity_s = settings.broker_deduplication_producer_inactivity_timeout_minutes * 60
        self._known_upto = cursor.mark_delete
        """Once `is_complete` is set: the last position of the log that the table takes into account."""
        self.is_complete = False
        """Whether `replay` has read the log after the snapshot into the table. Until then no snapshot is taken."""
        self._entries_since_snapshot = 0
        self._snapshot_s = 0.0
        self._counted_s = -SNAPSHOT_PAUSE_SECONDS
        """When the last snapshot was taken because of the number of entries."""
        self._release: Callable[[], None] | None = None
        """A function that lets the log after the last stored snapshot be trimmed again. It is set while a newer
        snapshot is being stored: if storing the newer snapshot fails, a restart has to replay that part of the log."""

    @classmethod
    async def open(
        cls, topic_name: str, ledger: ManagedLedger, settings: TopicSettings, now_s: float
    ) -> "Deduplication":
        """Returns the deduplication with the content of the last snapshot; the caller calls `replay` next. If
        deduplication was off, there is no cursor yet, and only messages that are stored from now on will be known.
        Raises ManagedLedgerError when the cursor cannot be opened."""
        cursor = await ledger.open_cursor(DEDUP_CURSOR, LATEST)
        self = cls(topic_name, ledger, cursor, settings)
        self._snapshot_s = now_s
        self.table.replay(cursor.position_properties.items(), now_s)
        return self

    @staticmethod
    def is_stored(ledger: ManagedLedger) -> bool:
        """Whether the topic has a cursor for deduplication."""
        return DEDUP_CURSOR in ledger.cursors

    @staticmethod
    async def remove(ledger: ManagedLedger) -> None:
        """Deletes the cursor, if there is one. While deduplication is off, the cursor would not move, and would keep
        the log from being trimmed. Raises ManagedLedgerError when the cursor cannot be deleted."""
        if Deduplication.is_stored(ledger):
            await ledger.delete_cursor(DEDUP_CURSOR)

    async def replay(self, now_s: float) -> None:
        """Reads the log from the last snapshot to the end, and adds its sequence ids to the table. Raises
        ManagedLedgerError when the log cannot be read."""
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

    # --- confirmed messages ------------------------------------------------------------------------------------------

    def confirmed(self, name: str, highest: int, last: Position, entries: int) -> None:
        """Called when the log has stored `entries` entries of the producer `name`: updates the table, and takes a
        snapshot after a number of entries. `highest` is the highest sequence id of these entries, or negative when no
        entry has a sequence id that counts. `last` is the position of the last entry."""
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
        """Called by the periodic job. Forgets producers that left long ago, and takes a snapshot when the last snapshot
        is older than `snapshot_interval_seconds`."""
        forgotten = self.table.forget_inactive(now_s - self._inactivity_s)
        if forgotten:
            log.info("%s: forgot %d inactive producers", self._topic_name, forgotten)
        if now_s - self._snapshot_s >= snapshot_interval_seconds:
            self._snapshot_s = now_s
            self.take_snapshot()
        elif self._release is not None:
            self._cursor.when_persisted(self._snapshot_stored)

    def take_snapshot(self) -> None:
        """Hands a snapshot to the cursor, which stores the snapshot in the background. Until the snapshot is stored,
        the log after the previous snapshot is not trimmed, because a restart would read that part of the log."""
        if not self.is_complete:
            return
        self._entries_since_snapshot = 0
        position, cursor = self._known_upto, self._cursor
        if position <= cursor.mark_delete:
            return
        if self._release is None:
            self._release = self._ledger.hold(DEDUP_CURSOR, cursor.mark_delete)
        cursor.ack_cumulative(position.ledger_id, position.entry_id, None, self.table.snapshot())
        cursor.when_persisted(self._snapshot_stored)

    def _snapshot_stored(self, error: ManagedLedgerError | None) -> None:
        """Called when the cursor was stored, or when storing the cursor failed. After a failure, a later `tick` tries
        again."""
        if error is None and not self._cursor.is_dirty:
            self.let_go()

    def let_go(self) -> None:
        """Allows the log to delete the entries that `take_snapshot` made it keep (`ManagedLedger.hold`). Called when
        the snapshot is stored or deduplication is turned off."""
        if self._release is not None:
            release, self._release = self._release, None
            release()


def chunk_counts(payload: bytes) -> bool:
    """Whether the sequence id of a chunk counts, which is so only for the last chunk of a message. `payload` belongs to
    a SEND that is marked as a chunk."""
    try:
        return _counts(parse_metadata(payload))
    except MalformedFrame:
        return True


def _counts(metadata: pb.MessageMetadata) -> bool:
    """Whether the message's sequence id counts. The sequence id of a chunk counts only if the chunk is the last chunk
    of its message."""
    chunks = metadata.num_chunks_from_msg
    return not metadata.HasField("chunk_id") or chunks <= 0 or metadata.chunk_id == chunks - 1


def _sequence_ids(run: EntryRun) -> Iterator[tuple[str, int]]:
    """Yields (producer name, highest sequence id) for each entry whose sequence id counts."""
    for entry in run.entries:
        try:
            metadata = parse_metadata(entry, run.payload_offset)
        except MalformedFrame:
            continue  # the metadata cannot be decoded, so the producer is unknown
        name = metadata.producer_name
        if isinstance(name, bytes):
            continue  # the name is not UTF-8, so no producer can have it
        highest = max(signed64(metadata.highest_sequence_id), signed64(metadata.sequence_id))
        if highest >= 0 and _counts(metadata):
            yield name, highest
