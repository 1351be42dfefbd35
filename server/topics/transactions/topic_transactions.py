"""What the transactions of all topics of this broker share: the settings, the coordinators, and the snapshots."""

from collections.abc import Callable
from functools import partial

from magnetar.server.topics.transactions.buffer_rules import LogPositions
from magnetar.server.topics.transactions.segmented_snapshots import SegmentedSnapshots
from magnetar.server.topics.transactions.snapshot_table import SnapshotKind, SnapshotLogs, SnapshotTables
from magnetar.server.topics.transactions.snapshots import TopicSnapshots, WholeSnapshots
from magnetar.server.topics.transactions.transaction_buffer import BufferState, TransactionBuffer
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic


class NoLog:
    """Stands for the log of a topic that was deleted."""

    last_confirmed = first_position = EARLIEST

    def previous_position(self, position: Position) -> Position:
        return EARLIEST


class TopicTransactions:
    """Makes the transaction buffers of topics. One object serves the whole process."""

    def __init__(self, support: TransactionSupport, logs: SnapshotLogs, clock_ms: Callable[[], int]) -> None:
        self.support = support
        self._clock_ms = clock_ms
        self.tables = SnapshotTables(logs)

    async def recovered(self, name: TopicName, ledger: ManagedLedger) -> TransactionBuffer | None:
        """Returns the buffer of a topic that is being loaded, or None if the topic never had a message of a
        transaction. Raises the errors of `TransactionBuffer.recover`."""
        if not self.support.known.are_in_use:
            return None
        buffer = self._buffer(name, ledger)
        await buffer.recover()
        return None if buffer.state is BufferState.NO_SNAPSHOT else buffer

    def begun(self, name: TopicName, ledger: ManagedLedger, *, is_open: bool) -> TransactionBuffer:
        """Returns the buffer of a loaded topic that never had a message of a transaction. The buffer of a topic that is
        being closed is closed, too."""
        buffer = self._buffer(name, ledger)
        buffer.begin()
        if not is_open:
            buffer.close()
        return buffer

    def _buffer(self, name: TopicName, ledger: ManagedLedger) -> TransactionBuffer:
        return TransactionBuffer(name.full, ledger, self.support, self._snapshots_of(name, ledger), self._clock_ms)

    def _snapshots_of(self, name: TopicName, log: LogPositions) -> TopicSnapshots:
        settings, of = self.support.settings, partial(self.tables.of, name.namespace)
        whole = WholeSnapshots(name, of(SnapshotKind.WHOLE))
        if not settings.transaction_buffer_segmented_snapshot_enabled:
            return whole
        indexes, segments = of(SnapshotKind.INDEXES), of(SnapshotKind.SEGMENTS)
        size = settings.transaction_buffer_snapshot_segment_size
        return SegmentedSnapshots(name, log, indexes, segments, whole, size, self._clock_ms)

    async def topic_deleted(self, name: TopicName) -> None:
        """Called after a topic was deleted: deletes its snapshot. Raises PulsarError."""
        self.tables.topic_gone(name)
        if not is_system_topic(name):
            await self._snapshots_of(name, NoLog()).delete()
