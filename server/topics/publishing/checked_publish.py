"""Publishes for producers whose SENDs must be checked one by one, for deduplication or for policies that refuse some
messages.

Only producers of topics with deduplication or such policies use this module. Messages still go to the log in groups: a
group ends at the next SEND that is a duplicate or refused. All answers leave in the order of the SENDs, so the answer
to a SEND that is not stored waits until the receipts of all earlier SENDs are written: the C++ client drops the
connection when a receipt is not for the message at the head of its queue (ProducerImpl::ackReceived).

Sources: PersistentTopic.publishMessage, MessageDeduplication.isDuplicate.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.topics.publishing.dedup_rules import DedupVerdict
from magnetar.server.topics.publishing.deduplication import CANNOT_TELL, Deduplication, chunk_counts
from magnetar.server.topics.publishing.producer import Producer, PublishGroup
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.errors import PersistenceFault, PulsarError
from pulsar_proto.ids import Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import send_error_frame
from pulsar_proto.wire.frame_encoders import Receipt

if TYPE_CHECKING:
    from magnetar.server.topics.publishing.topic_producers import TopicProducers

log = logging.getLogger(__name__)

NOTHING_THAT_COUNTS = -1
"""Stands for the sequence id of a chunk that is not the last chunk of its message, because deduplication does not count
such a chunk."""


class _UnstoredSend(NamedTuple):
    """A SEND that is not stored and has to be answered."""

    receipt: Receipt
    refusal: PulsarError | None
    """Why the SEND is refused. None for a duplicate; the answer to a duplicate depends on whether the first copy was
    stored."""


class _CheckedGroup(PublishGroup):
    """A group of checked SENDs of one producer, and the answers that are written after the group's receipts.
    `highests[k]` is the highest sequence id among the first k + 1 SENDs. `answers` are for later SENDs that are not
    stored; they are written once the whole group is answered."""

    __slots__ = ("answers", "highests", "is_answered", "publisher")

    def __init__(
        self, publisher: "CheckedPublisher", producer: Producer, receipts: list[Receipt], messages: int, size: int
    ) -> None:
        super().__init__(producer, receipts, messages, size)
        self.publisher = publisher
        self.highests: list[int] = []
        self.answers: list[_UnstoredSend] = []
        self.is_answered = False

    def stored(self, result: AddResult) -> None:
        dedup = self.publisher.registry.dedup
        count = sum(run[2] for run in result.runs)
        if dedup is not None and count:
            ledger_id, first, length = result.runs[-1]
            last = Position(ledger_id, first + length - 1)
            dedup.confirmed(self.producer.name, self.highests[count - 1], last, count)
        self.is_answered = True
        super().stored(result)
        for answer in self.answers:
            self.publisher.answer(answer)

    def delivered(self, place: Position) -> None:
        self.is_answered = True
        super().delivered(place)


class CheckedPublisher:
    """Publishes the SENDs of one producer, and checks each SEND first."""

    __slots__ = ("_last", "_producer", "registry")

    def __init__(self, producer: Producer, registry: "TopicProducers") -> None:
        self.registry = registry
        self._producer = producer
        self._last: _CheckedGroup | None = None

    def publish(self, sends: list[tuple[pb.CommandSend, bytes]]) -> None:
        """Publishes the SENDs of one socket read, in their order."""
        checks, dedup = self.registry.checks, self.registry.dedup
        run: list[tuple[pb.CommandSend, bytes, int]] = []
        for send, payload in sends:
            refusal = None if checks is None else checks.refusal(payload)
            highest = NOTHING_THAT_COUNTS
            verdict = DedupVerdict.NEW
            if refusal is None and dedup is not None:
                verdict, highest = self._judge(dedup, send, payload)
            if refusal is None and verdict is DedupVerdict.NEW:
                run.append((send, payload, highest))
                continue
            self._append(run)
            run = []
            self._answer_in_turn(_UnstoredSend(receipt_of(send), refusal))
            if self._producer.is_closed:
                return  # the answer overflowed and closed the connection: the remaining SENDs must not count as pushed
        self._append(run)

    def _judge(self, dedup: Deduplication, send: pb.CommandSend, payload: bytes) -> tuple[DedupVerdict, int]:
        if send.is_chunk and not chunk_counts(payload):
            return DedupVerdict.NEW, NOTHING_THAT_COUNTS
        sequence_id = signed64(send.sequence_id)
        highest = max(sequence_id, signed64(send.highest_sequence_id))
        return dedup.table.judge(self._producer.name, sequence_id, highest), highest

    def _append(self, run: list[tuple[pb.CommandSend, bytes, int]]) -> None:
        if not run or self._producer.is_closed:
            return
        receipts = [receipt_of(send) for send, _, _ in run]
        payloads = [payload for _, payload, _ in run]
        messages = sum(send.num_messages for send, _, _ in run)
        group = _CheckedGroup(self, self._producer, receipts, messages, sum(map(len, payloads)))
        so_far = NOTHING_THAT_COUNTS
        for _, _, highest in run:
            so_far = max(so_far, highest)
            group.highests.append(so_far)
        self._last = group
        self._producer.append(group, payloads)

    def _answer_in_turn(self, answer: _UnstoredSend) -> None:
        if self._last is None or self._last.is_answered:
            self.answer(answer)
        else:
            self._last.answers.append(answer)

    def answer(self, answer: _UnstoredSend) -> None:
        """Answers a SEND that is not stored. Called when all SENDs before it are answered."""
        producer, dedup = self._producer, self.registry.dedup
        if producer.is_disconnected:
            return
        sequence_id, highest = answer.receipt
        refusal = answer.refusal
        if refusal is None:
            if dedup is None or dedup.table.is_persisted(producer.name, signed64(sequence_id)):
                producer.answer_unstored(answer.receipt)
                return
            refusal = PersistenceFault(CANNOT_TELL)
        last = max(sequence_id, highest or 0)
        log.warning("%s: message %d refused: %s", producer, last, refusal)
        producer.cnx.write(send_error_frame(producer.producer_id, last, refusal.code, str(refusal)))


def receipt_of(send: pb.CommandSend) -> Receipt:
    """Returns the sequence ids that the receipt of a SEND repeats: (sequence_id, highest_sequence_id or None). A
    highest sequence id that is smaller than the sequence id counts as absent; this includes 0, the default of the field
    (ServerCnx.handleSend)."""
    highest = send.highest_sequence_id
    return send.sequence_id, highest if highest and highest >= send.sequence_id else None
