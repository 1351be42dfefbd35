"""The snapshots of one topic's transactions in one piece, which is Apache's default. After a restart the topic's log is
read from its snapshot on; without a snapshot the topic never had a message of a transaction.

Source: SingleSnapshotAbortedTxnProcessorImpl.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from magnetar.server.process.turns import Turns, in_slices
from magnetar.server.topics.transactions.snapshot_table import SnapshotTable
from pulsar_proto.errors import MalformedRecord, MetadataFault
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.records.transaction_snapshot import AbortedTxn, Snapshot, decode_snapshot, encode_snapshot


class RecoveryStart(NamedTuple):
    """What the newest snapshot says: which transactions were aborted, and the position behind which the log has to be
    read."""

    aborted: Sequence[AbortedTxn]
    max_read_position: Position


class TopicSnapshots(Protocol):
    """The snapshots of one topic."""

    @property
    def type_name(self) -> str:
        """How statistics call this kind of snapshots."""

    async def latest(self) -> RecoveryStart | None:
        """Returns what the newest snapshot says, or None when there is none. Raises PulsarError."""

    async def recovered(self, aborted: Mapping[TxnId, Position]) -> None:
        """Called after `latest`, when the log was read: takes over the aborted transactions that were found."""

    def aborted(self, txn_id: TxnId) -> None:
        """Called when a transaction was aborted."""

    async def write(self, aborted: Mapping[TxnId, Position], max_read_position: Position) -> None:
        """Stores a snapshot. Raises PulsarError. The caller makes one call after the other."""

    async def delete(self) -> None:
        """Deletes the snapshot of a topic that is being deleted. Raises PulsarError."""

    def segment_stats(self) -> dict[str, object]:
        """Returns what statistics tell about segments, with Apache's names of fields."""


class WholeSnapshots:
    """Implements `TopicSnapshots`."""

    type_name = "Single"

    def __init__(self, topic: TopicName, table: SnapshotTable) -> None:
        self._topic = topic.full
        self._table = table

    async def latest(self) -> RecoveryStart | None:
        value = await self._table.get(self._topic)
        if value is None:
            return None
        try:
            snapshot = await Turns().run(decode_snapshot(value))
        except MalformedRecord as error:
            raise MetadataFault(f"The snapshot of {self._topic}'s transactions is damaged: {error}") from error
        return RecoveryStart(snapshot.aborts, snapshot.max_read_position)

    async def recovered(self, aborted: Mapping[TxnId, Position]) -> None:
        """Does nothing: each snapshot is made of all aborted transactions."""

    def aborted(self, txn_id: TxnId) -> None:
        """Does nothing, like `recovered`."""

    async def write(self, aborted: Mapping[TxnId, Position], max_read_position: Position) -> None:
        aborts: list[AbortedTxn] = []
        async for some in in_slices(list(aborted)):
            # Transactions that are forgotten meanwhile have no messages in the log any more.
            aborts += (AbortedTxn(txn_id, aborted[txn_id]) for txn_id in some if txn_id in aborted)
        snapshot = Snapshot(self._topic, aborts, max_read_position)
        value = await Turns().run(encode_snapshot(snapshot))
        await self._table.put(self._topic, value)

    async def delete(self) -> None:
        if await self._table.get(self._topic) is not None:
            await self._table.put(self._topic, None)

    def segment_stats(self) -> dict[str, object]:
        return {}
