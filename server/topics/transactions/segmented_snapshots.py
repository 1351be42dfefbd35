"""The snapshots of one topic's transactions in segments (`transactionBufferSegmentedSnapshotEnabled`), for topics with
many aborted transactions. A segment with aborted ids is written once it is full. An index, which is written each time,
names the segments and the aborted ids that are in none of them yet.

Apache's brokers read a segment by the position that the index names. This module reads segments by their keys, because
the topic of segments is compacted, and the ledger of that position may be deleted then.

Source: SnapshotSegmentAbortedTxnProcessorImpl.
"""

import logging
from collections.abc import Callable, Mapping

from magnetar.server.process.turns import Turns, in_portions
from magnetar.server.topics.transactions.buffer_rules import LogPositions
from magnetar.server.topics.transactions.snapshot_table import SnapshotTable
from magnetar.server.topics.transactions.snapshots import RecoveryStart, TopicSnapshots
from pulsar_proto.errors import MalformedRecord, MetadataFault
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.records.transaction_snapshot import (
    AbortedTxn,
    Indexes,
    Segment,
    SegmentPlace,
    decode_indexes,
    decode_segment,
    encode_indexes,
    encode_segment,
)

log = logging.getLogger(__name__)

BYTES_OF_SEQUENCE_ID = 8
BYTES_OF_TXN_ID = 3
"""The sizes by which Apache's broker estimates how many ids a segment may hold."""


class SegmentedSnapshots:
    """Implements `TopicSnapshots`."""

    type_name = "Segment"

    def __init__(
        self,
        topic: TopicName,
        log_: LogPositions,
        indexes: SnapshotTable,
        segments: SnapshotTable,
        whole: TopicSnapshots,
        segment_bytes: int,
        clock_ms: Callable[[], int],
    ) -> None:
        """`whole` are the topic's snapshots in one piece, of the time before segments were switched on."""
        self._topic = topic.full
        self._log = log_
        self._indexes = indexes
        self._segments = segments
        self._whole = whole
        self._clock_ms = clock_ms
        self._capacity = max(1, (segment_bytes - BYTES_OF_SEQUENCE_ID - len(topic.full)) // BYTES_OF_TXN_ID)
        self._places: list[SegmentPlace] = []
        """The stored segments, by their sequence ids."""
        self._unsealed: dict[TxnId, None] = {}
        """The aborted transactions that are in no segment, in the order of their ends."""
        self._sealed_ms = 0

    # --- reading -----------------------------------------------------------------------------------------------------

    async def latest(self) -> RecoveryStart | None:
        value = await self._indexes.get(self._topic)
        if value is None:
            return await self._whole.latest()
        try:
            indexes = await Turns().run(decode_indexes(value))
            aborted = []
            for place in indexes.segments:
                aborted += await self._aborted_in(place)
        except MalformedRecord as error:
            raise MetadataFault(f"The snapshot of {self._topic}'s transactions is damaged: {error}") from error
        self._places = list(indexes.segments)
        self._unsealed = dict.fromkeys(indexes.aborts)
        # The index doesn't tell where the markers are. Those behind the read limit will be read again.
        aborted += [AbortedTxn(txn_id, indexes.max_read_position) for txn_id in indexes.aborts]
        return RecoveryStart(aborted, indexes.max_read_position)

    async def _aborted_in(self, place: SegmentPlace) -> list[AbortedTxn]:
        value = await self._segments.get(self._key(place.sequence_id))
        if value is None:
            log.warning("%s: segment %d of its snapshot is missing", self._topic, place.sequence_id)
            return []
        segment = await Turns().run(decode_segment(value))
        return [AbortedTxn(txn_id, place.last_marker) for txn_id in segment.aborts]

    async def recovered(self, aborted: Mapping[TxnId, Position]) -> None:
        sealed = {place.last_marker for place in self._places}
        async for txn_id, marker in in_portions(list(aborted.items())):
            # In a segment, every id has the marker of the segment's last one, which stands in no other segment.
            if marker not in sealed:
                self._unsealed[txn_id] = None

    # --- writing -----------------------------------------------------------------------------------------------------

    def aborted(self, txn_id: TxnId) -> None:
        self._unsealed[txn_id] = None

    async def write(self, aborted: Mapping[TxnId, Position], max_read_position: Position) -> None:
        known = list(self._unsealed)
        unsealed = [
            (txn_id, marker) async for txn_id in in_portions(known) if (marker := aborted.get(txn_id)) is not None
        ]
        places = list(self._places)
        while len(unsealed) >= self._capacity:
            full, unsealed = unsealed[: self._capacity], unsealed[self._capacity :]
            places.append(await self._seal(places[-1].sequence_id + 1 if places else 0, full))
        first = self._log.first_position.ledger_id
        gone = [place for place in places if place.last_marker.ledger_id < first]
        kept = [place for place in places if place.last_marker.ledger_id >= first]
        ids = [txn_id for txn_id, _ in unsealed]
        value = await Turns().run(encode_indexes(Indexes(self._topic, kept, ids, max_read_position)))
        await self._indexes.put(self._topic, value)
        self._places = kept
        still = set(ids)
        async for txn_id in in_portions(known):
            if txn_id not in still:
                del self._unsealed[txn_id]
        for place in gone:
            await self._segments.put(self._key(place.sequence_id), None)

    async def _seal(self, sequence_id: int, aborted: list[tuple[TxnId, Position]]) -> SegmentPlace:
        last_marker = max(marker for _, marker in aborted)
        segment = Segment(self._topic, sequence_id, [txn_id for txn_id, _ in aborted], last_marker)
        value = await Turns().run(encode_segment(segment))
        stored_at = await self._segments.put(self._key(sequence_id), value)
        self._sealed_ms = self._clock_ms()
        return SegmentPlace(sequence_id, last_marker, stored_at)

    async def delete(self) -> None:
        value = await self._indexes.get(self._topic)
        if value is not None:
            try:
                places = (await Turns().run(decode_indexes(value))).segments
            except MalformedRecord:
                places = []  # it is deleted, damaged or not
            await self._indexes.put(self._topic, None)
            for place in places:
                await self._segments.put(self._key(place.sequence_id), None)
        await self._whole.delete()

    def _key(self, sequence_id: int) -> str:
        return f"multiple-{sequence_id}-{self._topic}"

    # --- statistics --------------------------------------------------------------------------------------------------

    def segment_stats(self) -> dict[str, object]:
        return {
            "segmentsStats": {
                "segmentsSize": len(self._places),
                "currentSegmentCapacity": self._capacity,
                "unsealedAbortTxnIDSize": len(self._unsealed),
                "segmentStats": [{"persistentPosition": str(place.last_marker)} for place in self._places],
                "lastTookSnapshotSegmentTimestamp": self._sealed_ms,
            }
        }
