"""The producer of a socket on one topic, which is a partition or a topic without partitions.

The producer keeps each entry until the topic has answered it. When the topic closes the producer, because the topic is
unloaded, moved or fenced, the producer attaches itself again and sends unanswered messages again, as the Java client
does (ProducerImpl.connectionClosed, resendMessages). An error that another attempt would only repeat ends the socket.

    ATTACHED ── CLOSE_PRODUCER ──▶ RETURNING ── add_producer ──▶ ATTACHED
        └────────────── closed, or an error that stays ──────────▶ ENDED
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.peers.retry_rules import FATAL
from magnetar.server.websocket.answer_queue import Answer
from magnetar.server.websocket.json_message_rules import entry_id_texts, message_id_text
from magnetar.server.websocket.producer_options_rules import ProducerOptions
from magnetar.server.websocket.socket_topics import AttachedProducer, SocketTopics
from pulsar_proto.backoff import backoff
from pulsar_proto.errors import (
    PulsarError,
    QuotaExceeded,
    ServiceNotReady,
)
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.frame_encoders import Receipt

if TYPE_CHECKING:
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.1, 5.0
"""The pauses between two attempts to attach the producer again grow from FIRST_PAUSE_SECONDS to PAUSE_SECONDS_MAX."""


class ProducerState(Enum):
    ATTACHED = "attached"
    RETURNING = "returning"
    ENDED = "ended"


class Sent(NamedTuple):
    """An entry that was sent. The entry is one message, or a batch, each of whose messages has an answer of its own."""

    first_id: int
    last_id: int
    payload: bytes
    answers: Sequence[Answer]
    began_s: float


class PartitionProducer:
    """The producer's owner calls `open` once, then `send`, hands over the frames of this producer, and calls `close`
    once. `stored` is called with the answers of messages that were stored, in their order, and their message ids;
    `failed` with the answers of messages that failed, and the error's text; and `lost` when a lasting error ends the
    producer.

    Receipts do not come as frames, because one call for all receipts of a group costs a third of the time. For that the
    class implements `magnetar.server.topics.publishing.receipt_writers.ReceiptWriter`."""

    def __init__(
        self,
        client: "WebSocketClient",
        topics: SocketTopics,
        topic: TopicName,
        producer_id: int,
        options: ProducerOptions,
        stored: Callable[[list[Answer], list[bytes]], None],
        failed: Callable[[list[Answer], str], None],
        lost: Callable[[PulsarError], None],
    ) -> None:
        self.topic = topic
        self.name = options.producer_name
        self.next_sequence_id = 0
        self._client = client
        self._topics = topics
        self._producer_id = producer_id
        self._options = options
        self._stored = stored
        self._failed = failed
        self._lost = lost
        self._state = ProducerState.RETURNING
        self._producer: AttachedProducer | None = None
        self._epoch = 0
        self._attempts = 0
        """The attempts to attach the producer again since the last receipt. The next attempt waits the longer, the more
        they are, so that a message that the topic never takes does not make the producer come back without a pause."""
        self._unsent: list[Sent] = []
        """Entries that go to the log at the end of this turn of the event loop."""
        self._pending: dict[int, Sent] = {}
        """Entries without an answer, by their first sequence id, in the order of sending. The entries in `_unsent` are
        among them."""
        self._is_scheduled = False

    def __str__(self) -> str:
        return f"producer {self.name} of {self.topic}"

    async def open(self, name: str) -> None:
        """Attaches the producer under a name; for an empty name the broker makes a name. Raises PulsarError when the
        topic does not accept the producer."""
        self.name = name
        producer = await self._attach()
        if self._state is ProducerState.ENDED or producer.is_closed:
            producer.close()
            raise ServiceNotReady("The producer was closed while it was created")
        self._producer, self.name = producer, producer.name
        first = self._options.initial_sequence_id
        self.next_sequence_id = (producer.last_sequence_id if first is None else first) + 1
        self._state = ProducerState.ATTACHED

    async def _attach(self) -> AttachedProducer:
        command = pb.CommandProducer(
            topic=self.topic.full,
            producer_id=self._producer_id,
            request_id=0,
            producer_name=self.name,
            user_provided_producer_name=bool(self._options.producer_name),
            encrypted=bool(self._options.encryption_keys),
            epoch=self._epoch,
        )
        return await self._topics.add_producer(self.topic, command, self)

    def send(self, payload: bytes, answers: Sequence[Answer], first_id: int, last_id: int, now_s: float) -> None:
        """Takes an entry. At the end of this turn of the event loop the entry goes to the log, together with the
        entries that were taken before."""
        self._pending[first_id] = sent = Sent(first_id, last_id, payload, answers, now_s)
        self._unsent.append(sent)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._state is not ProducerState.ATTACHED or not self._unsent:
            return  # Pending entries are sent when the producer is attached again.
        unsent, self._unsent = self._unsent, []
        assert self._producer is not None
        first_id = unsent[0].first_id
        if unsent[-1].last_id - first_id + 1 == len(unsent):  # Each entry has one of these ids: there are no batches.
            self._producer.publish_singles(first_id, [sent.payload for sent in unsent])
        else:
            self._producer.publish([(self._command(sent), sent.payload) for sent in unsent])

    def _command(self, sent: Sent) -> pb.CommandSend:
        send = pb.CommandSend(producer_id=self._producer_id, sequence_id=sent.first_id, num_messages=len(sent.answers))
        if sent.last_id != sent.first_id:
            send.highest_sequence_id = sent.last_id
        return send

    # --- ReceiptWriter -----------------------------------------------------------------------------------------------

    def write_run(self, receipts: Sequence[Receipt], ledger_id: int, first_entry_id: int) -> None:
        self._attempts = 0
        entries = range(first_entry_id, first_entry_id + len(receipts))
        self._write(receipts, ledger_id, entries)

    def write_unstored(self, receipts: Sequence[Receipt], ledger_id: int, entry_id: int) -> None:
        self._write(receipts, ledger_id, [entry_id] * len(receipts))

    def _write(self, receipts: Sequence[Receipt], ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Tells which messages were stored where. An entry that was given up meanwhile is left out."""
        answers: list[Answer] = []
        message_ids: list[bytes] = []
        pending, partition = self._pending, self.topic.partition_index
        text_of = entry_id_texts(ledger_id, partition)
        for (sequence_id, _), entry_id in zip(receipts, entry_ids, strict=True):
            sent = pending.pop(sequence_id, None)
            if sent is None:
                continue
            size = len(sent.answers)
            if size == 1:
                answers.append(sent.answers[0])
                message_ids.append(text_of(entry_id))
            else:
                answers += sent.answers
                message_ids += [
                    message_id_text(ledger_id, entry_id, partition, index, size).encode() for index in range(size)
                ]
        self._client.guarded(self._stored, answers, message_ids)

    # --- what the topic says -----------------------------------------------------------------------------------------

    def refused(self, error: pb.CommandSendError) -> None:
        """Called when the topic refuses an entry. The error names the highest sequence id of the entry."""
        for first_id, sent in self._pending.items():
            if error.sequence_id in (first_id, sent.last_id):
                del self._pending[first_id]
                self._fail([sent], error.message)
                return

    def disconnected(self) -> None:
        """Called when the topic closed the producer: begins to attach a new producer. A late call, after the new
        producer was attached, has no effect."""
        if self._state is ProducerState.ATTACHED and self._producer is not None and self._producer.is_closed:
            self._state, self._producer = ProducerState.RETURNING, None
            log.info("%s: %s comes back", self._client.remote_address, self)
            self._client.broker.spawn(self._return())

    async def _return(self) -> None:
        while self._client.is_open and self._state is ProducerState.RETURNING:
            if self._attempts:
                await asyncio.sleep(backoff(self._attempts, FIRST_PAUSE_SECONDS, PAUSE_SECONDS_MAX))
                if self._state is not ProducerState.RETURNING:
                    return
            self._attempts += 1
            self._epoch += 1
            try:
                producer = await self._attach()
            except FATAL as error:
                self._end(error)
                return
            except PulsarError as error:
                log.info("%s: %s cannot come back yet: %s", self._client.remote_address, self, error)
                if isinstance(error, QuotaExceeded):
                    self._fail_all(str(error))
            except Exception:
                log.exception("%s: %s cannot come back", self._client.remote_address, self)
            else:
                self._is_back(producer)
                return

    def _is_back(self, producer: AttachedProducer) -> None:
        if not self._client.is_open or self._state is not ProducerState.RETURNING:
            producer.close()
            return
        self._producer, self._state = producer, ProducerState.ATTACHED
        if producer.is_closed:
            self.disconnected()
            return
        self._unsent = list(self._pending.values())
        self._flush()

    # --- time and end ------------------------------------------------------------------------------------------------

    def give_up(self, now_s: float) -> None:
        """Fails the messages that have had no answer for as long as the send time-out
        (ProducerImpl.failPendingMessages). Such messages may be stored nevertheless."""
        timeout_ms = self._options.send_timeout_ms
        late = []
        for sent in self._pending.values():
            if timeout_ms <= 0 or (now_s - sent.began_s) * 1000 < timeout_ms:
                break
            late.append(sent)
        for sent in late:
            del self._pending[sent.first_id]
        if late:
            gone = {id(sent) for sent in late}
            self._unsent = [sent for sent in self._unsent if id(sent) not in gone]
            self._fail(
                late,
                f"The producer {self.name} can not send message to the topic {self.topic} within given timeout",
            )

    def close(self) -> Awaitable[None] | None:
        """Detaches the producer. Entries that were handed to the log are stored; entries that were not are dropped."""
        self._state = ProducerState.ENDED
        producer, self._producer = self._producer, None
        self._pending.clear()
        self._unsent.clear()
        return producer.close() if producer is not None else None

    def _end(self, error: PulsarError) -> None:
        if self._state is ProducerState.ENDED:
            return
        self._state = ProducerState.ENDED
        self._fail_all(str(error))
        self._lost(error)

    def _fail_all(self, text: str) -> None:
        pending = list(self._pending.values())
        self._pending.clear()
        self._unsent.clear()
        self._fail(pending, text)

    def _fail(self, entries: list[Sent], text: str) -> None:
        self._failed([answer for sent in entries for answer in sent.answers], text or "unknown")
