"""Publishes for producers whose SENDs must be checked one by one, for deduplication, for policies that refuse some
messages, or because they belong to transactions.

Only producers of topics with deduplication or such policies use this module, and those that send in transactions.
Messages still go to the log in groups: a group ends at the next SEND that is a duplicate or refused, or that has to
wait. All answers leave in the order of the SENDs, so the answer to a SEND that is not stored waits until the receipts
of all earlier SENDs are written: the C++ client drops the connection when a receipt is not for the message at the head
of its queue (ProducerImpl::ackReceived).

The first message of a transaction may have to wait, until a coordinator on another broker was asked or until the
topic's first snapshot is stored. All later SENDs of the producer then wait behind that message.

Sources: PersistentTopic.publishMessage, publishTxnMessage; MessageDeduplication.isDuplicate.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.topics.publishing.dedup_rules import DedupVerdict
from magnetar.server.topics.publishing.deduplication import CANNOT_TELL, Deduplication, chunk_counts
from magnetar.server.topics.publishing.producer import Producer, PublishGroup, Sends
from magnetar.server.topics.publishing.transaction_sends import admission, txn_of
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.errors import PersistenceFault, PulsarError
from pulsar_proto.ids import Position, TxnId, signed64
from pulsar_proto.wire.commands import send_error_frame
from pulsar_proto.wire.frame_encoders import Receipt
from pulsar_proto.wire.send_run import PlainSend, Send

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
    stored; they are written once the whole group is answered. `txn_ids` names the SENDs that belong to
    transactions."""

    __slots__ = ("answers", "highests", "is_answered", "publisher", "txn_ids")

    def __init__(
        self, publisher: "CheckedPublisher", producer: Producer, receipts: list[Receipt], messages: int, size: int
    ) -> None:
        super().__init__(producer, receipts, messages, size)
        self.publisher = publisher
        self.highests: list[int] = []
        self.answers: list[_UnstoredSend] = []
        self.is_answered = False
        self.txn_ids: list[tuple[int, TxnId]] = []

    def stored(self, result: AddResult) -> None:
        if self.txn_ids and (transactions := self.publisher.registry.owner.begin_transactions()) is not None:
            # This comes first, because what is written below may make somebody read.
            transactions.stored(self.txn_ids, result)
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


class _CheckedSend(NamedTuple):
    """A SEND that goes to the log."""

    send: Send
    payload: bytes
    highest: int
    """The highest sequence id of the SEND, or NOTHING_THAT_COUNTS."""
    txn_id: TxnId | None


class CheckedPublisher:
    """Publishes the SENDs of one producer, and checks each SEND first."""

    __slots__ = ("_held", "_last", "_producer", "_waiting", "registry")

    def __init__(self, producer: Producer, registry: "TopicProducers") -> None:
        self.registry = registry
        self._producer = producer
        self._last: _CheckedGroup | None = None
        self._held: deque[Sends] = deque()
        """The SENDs that wait behind a message of a transaction; that message is the first one."""
        self._waiting: asyncio.Task[None] | None = None

    def publish(self, sends: Sends) -> None:
        """Publishes the SENDs of one socket read, in their order."""
        if self._waiting is not None:
            self._hold(sends)
            return
        wait = self._publish(sends)
        if wait is not None:
            self.registry.hold(1)
            self._waiting = asyncio.get_running_loop().create_task(self._publish_held(wait))

    def _publish(self, sends: Sends, first_refusal: PulsarError | None = None) -> Awaitable[None] | None:
        """Publishes SENDs up to the first one that has to wait, if there is one; holds that one and the later ones, and
        returns what to wait for. `first_refusal` is why the first SEND is refused, if that is known already."""
        checks, dedup = self.registry.checks, self.registry.dedup
        run: list[_CheckedSend] = []
        for index, (send, payload) in enumerate(sends):
            refusal = first_refusal if index == 0 else None
            if refusal is None and checks is not None:
                refusal = checks.refusal(payload)
            txn_id = txn_of(send)
            if refusal is None and txn_id is not None:
                payload, admitted = admission(payload, txn_id, self.registry.owner.begin_transactions())
                if admitted is not None and not isinstance(admitted, PulsarError):
                    self._append(run)
                    self._hold(sends[index:])
                    return admitted
                refusal = admitted
            highest = NOTHING_THAT_COUNTS
            verdict = DedupVerdict.NEW
            if refusal is None and dedup is not None:
                verdict, highest = self._judge(dedup, send, payload)
            if refusal is None and verdict is DedupVerdict.NEW:
                run.append(_CheckedSend(send, payload, highest, txn_id))
                continue
            self._append(run)
            run = []
            self._answer_in_turn(_UnstoredSend(receipt_of(send), refusal))
            if self._producer.is_closed:
                return None  # the answer overflowed and closed the connection: the other SENDs must not count as pushed
        self._append(run)
        return None

    def _hold(self, sends: Sends) -> None:
        self._held.append(sends)
        self._producer.pending += len(sends)

    async def _publish_held(self, wait: Awaitable[None] | None) -> None:
        """Waits, and then publishes what is held. A SEND for which there is nothing to wait any more is asked for
        again, because its transaction may have ended meanwhile."""
        producer = self._producer
        try:
            while wait is not None:
                refusal: PulsarError | None = None
                try:
                    await wait
                except PulsarError as error:
                    refusal = error
                wait = None
                held, self._held = self._held, deque()
                while held:
                    sends = held.popleft()
                    producer.pending -= len(sends)
                    if wait is not None:
                        self._hold(sends)
                    elif not producer.is_closed:
                        wait = self._publish(sends, refusal)
                    refusal = None
        finally:
            self._waiting = None
            self.registry.hold(-1)
            while self._held:  # only if this task was cancelled
                producer.pending -= len(self._held.popleft())
            producer.answered(0)

    def _judge(self, dedup: Deduplication, send: Send, payload: bytes) -> tuple[DedupVerdict, int]:
        if not isinstance(send, PlainSend) and send.is_chunk and not chunk_counts(payload):
            return DedupVerdict.NEW, NOTHING_THAT_COUNTS
        sequence_id = signed64(send.sequence_id)
        highest = max(sequence_id, signed64(send.highest_sequence_id))
        return dedup.table.judge(self._producer.name, sequence_id, highest), highest

    def _append(self, run: list[_CheckedSend]) -> None:
        if not run or self._producer.is_closed:
            return
        receipts = [receipt_of(each.send) for each in run]
        payloads = [each.payload for each in run]
        messages = sum(each.send.num_messages for each in run)
        group = _CheckedGroup(self, self._producer, receipts, messages, sum(map(len, payloads)))
        so_far = NOTHING_THAT_COUNTS
        for index, each in enumerate(run):
            so_far = max(so_far, each.highest)
            group.highests.append(so_far)
            if each.txn_id is not None:
                group.txn_ids.append((index, each.txn_id))
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


def receipt_of(send: Send) -> Receipt:
    """Returns the sequence ids that the receipt of a SEND repeats: (sequence_id, highest_sequence_id or None). A
    highest sequence id that is smaller than the sequence id counts as absent; this includes 0, the default of the field
    (ServerCnx.handleSend)."""
    highest = send.highest_sequence_id
    return send.sequence_id, highest if highest and highest >= send.sequence_id else None
