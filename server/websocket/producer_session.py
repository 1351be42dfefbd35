"""The session of a producer's socket. Each text of the peer is a message in JSON, and gets one answer when the message
is durable.

Sources: ProducerHandler; PartitionedProducerImpl for topics with partitions.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.server.process.detaching import detach_all
from magnetar.server.security.operations import TopicOperation
from magnetar.server.topics.counters import now_ms
from magnetar.server.websocket.answer_queue import Answer, AnswerQueue
from magnetar.server.websocket.frame_rules import INTERNAL_ERROR, POLICY_VIOLATION
from magnetar.server.websocket.json_message_rules import (
    MessageFault,
    ProducerMessage,
    SocketError,
    ack_text,
    error_text,
    parse_producer_message,
)
from magnetar.server.websocket.partition_producer import PartitionProducer
from magnetar.server.websocket.producer_options_rules import producer_options
from magnetar.server.websocket.publish_rules import (
    BATCH_BYTES_MAX,
    batch_entry,
    batch_payload,
    fits_in_batch,
    single_payload,
)
from magnetar.server.websocket.query_rules import Query
from magnetar.server.websocket.routing_rules import Router
from magnetar.server.websocket.socket_topics import SocketTopics
from magnetar.server.websocket.websocket_path_rules import SocketPath
from pulsar_proto.errors import AuthorizationFault, PulsarError, ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import BatchMessage

if TYPE_CHECKING:
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

OPEN_SECONDS_MAX = 10.0
"""How long a new socket waits for a topic that is not ready, before the socket is refused."""

OPEN_PAUSE_SECONDS = 0.1

OPENED_AT_ONCE = 32
"""How many partitions' producers are attached at the same time."""

PARTITIONS_SECONDS = 60.0
"""The interval at which the session checks whether the topic has more partitions (autoUpdatePartitionsInterval)."""

IN_FLIGHT_MAX = 1_000
"""How many messages of a socket may wait to be stored when maxPendingPublishRequestsPerConnection sets no limit."""

IN_FLIGHT_BYTES_MAX = 8 << 20
"""How many bytes of a socket's messages may wait to be stored. While more bytes wait, the socket is not read."""


class _Batch:
    """The messages of one partition that wait to be sent together."""

    __slots__ = ("answers", "entries", "first", "size_bytes", "timer")

    def __init__(self, first: ProducerMessage, timer: asyncio.TimerHandle) -> None:
        self.first = first
        self.entries: list[BatchMessage] = []
        self.answers: list[Answer] = []
        self.size_bytes = 0
        self.timer = timer
        """Sends the batch when batchingMaxPublishDelay is over."""


class ProducerSession:
    """The session of one producer's socket. Implements `magnetar.server.websocket.session.Session`."""

    def __init__(self, client: "WebSocketClient", path: SocketPath, query: Query) -> None:
        self._client = client
        self._topic = path.topics[0]
        self._topics = SocketTopics(client, client)
        self._options = options = producer_options(query)
        limits = client.broker.limits
        self._size_max = limits.max_message_size
        self._count_max = limits.max_pending_publish_requests_per_connection or IN_FLIGHT_MAX
        self._queue = AnswerQueue(client.say_all)
        self._in_flight = client.service.in_flight
        self._in_flight_bytes = 0
        """The bytes of this socket that are counted in `_in_flight`."""
        self._producers: list[PartitionProducer] = []
        self._batches: dict[int, _Batch] = {}
        """The open batches, by the index of the partition."""
        self._is_full = False
        self._is_looking = False
        self._is_partitioned = False
        self._loop = asyncio.get_running_loop()
        self._looked_s = self._loop.time()
        first = random.getrandbits(31)
        self._router = Router(1, options.routing, options.hashing_scheme, first, by_batch=options.batching)

    # --- Session -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._client.authorize(TopicOperation.PRODUCE, self._topic)
        deadline_s = self._loop.time() + OPEN_SECONDS_MAX
        while True:
            try:
                count = await self._client.broker.service.catalog.partitions_of(self._topic, may_create=True)
                self._is_partitioned = count > 0
                await self._grow(max(1, count))
                return
            except ServiceNotReady:
                if not self._client.is_open or self._loop.time() >= deadline_s:
                    raise
            self._close_producers()
            await asyncio.sleep(OPEN_PAUSE_SECONDS)

    def started(self) -> None:
        """Does nothing, because the peer sends the first text."""

    def on_texts(self, texts: Sequence[bytearray]) -> int:
        queue, pending_max = self._queue, self._options.max_pending_messages
        published_ms, now_s = now_ms(), self._loop.time()
        taken = 0
        try:
            for text in texts:
                taken += 1
                answer = queue.begin()
                try:
                    message = parse_producer_message(text)
                    answer.context = message.context
                    if 0 < pending_max < len(queue):
                        raise MessageFault(SocketError.UNKNOWN_ERROR, "Producer send queue is full")
                    self._take(message, answer, published_ms, now_s)
                except MessageFault as fault:
                    context = fault.context if fault.context is not None else answer.context
                    queue.give_all([answer], [error_text(fault.code, str(fault), context)])
                if len(queue) >= self._count_max or queue.size_bytes >= IN_FLIGHT_BYTES_MAX:
                    self._is_full = True
                    self._client.throttle_reading(self)
                    break
        finally:
            self._count_in_flight()
        return taken

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        if command.type == pb.BaseCommand.SEND_ERROR:
            for producer in self._of(command.send_error.producer_id):
                producer.refused(command.send_error)
        elif command.type == pb.BaseCommand.CLOSE_PRODUCER:
            for producer in self._of(command.close_producer.producer_id):
                producer.disconnected()

    def _of(self, producer_id: int) -> list[PartitionProducer]:
        """Returns a list with the producer that has this id, or an empty list when that producer was given up
        meanwhile."""
        return self._producers[producer_id : producer_id + 1]

    def tick(self, now_s: float) -> None:
        for producer in self._producers:
            producer.give_up(now_s)
        if now_s - self._looked_s >= PARTITIONS_SECONDS and self._is_partitioned and not self._is_looking:
            self._looked_s, self._is_looking = now_s, True
            self._client.broker.spawn(self._look_for_partitions())

    def closed(self) -> None:
        for batch in self._batches.values():
            batch.timer.cancel()
        self._batches.clear()
        producers, self._producers = self._producers, []
        detaches = [producer.close for producer in producers]
        detach_all(detaches, self._client.remote_address, self._client.broker.spawn)
        self._topics.close()
        self._queue = AnswerQueue(self._client.say_all)
        self._count_in_flight()
        self._in_flight.leave(self._client)

    # --- producers ---------------------------------------------------------------------------------------------------

    async def _grow(self, count: int) -> None:
        """Attaches producers for further partitions until there are `count` producers. All producers have the name of
        the first one. Raises PulsarError when a topic does not accept its producer."""
        while len(self._producers) < count:
            first = len(self._producers)
            stop = first + 1 if first == 0 else min(count, first + OPENED_AT_ONCE)
            name = self._producers[0].name if first else self._options.producer_name
            added = [self._make(index) for index in range(first, stop)]
            self._producers += added
            results = await asyncio.gather(*(each.open(name) for each in added), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        self._router.partitions = count

    def _make(self, index: int) -> PartitionProducer:
        topic = self._topic.partition(index) if self._is_partitioned else self._topic
        told = (self._stored, self._failed, self._lost)
        return PartitionProducer(self._client, self._topics, topic, index, self._options, *told)

    async def _look_for_partitions(self) -> None:
        try:
            count = await self._client.broker.service.catalog.partitions_of(self._topic, may_create=False)
            if count > len(self._producers) and self._client.is_open:
                await self._grow(count)
        except PulsarError as error:
            log.info("%s: the partitions of %s are not known: %s", self._client.remote_address, self._topic, error)
            for producer in self._producers[self._router.partitions :]:
                producer.close()
            del self._producers[self._router.partitions :]
        finally:
            self._is_looking = False
            if not self._client.is_open:
                self._close_producers()

    def _close_producers(self) -> None:
        producers, self._producers = self._producers, []
        for producer in producers:
            producer.close()

    def _lost(self, error: PulsarError) -> None:
        code = POLICY_VIOLATION if isinstance(error, AuthorizationFault) else INTERNAL_ERROR
        self._client.close(f"the producer was closed: {error}", code)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _take(self, message: ProducerMessage, answer: Answer, published_ms: int, now_s: float) -> None:
        """Sends a message, or puts it into its partition's batch. Raises MessageFault when the message is refused."""
        index = self._router.choose(message.key)
        if self._options.batching and fits_in_batch(message):
            self._add_to_batch(index, message, answer)
            return
        if index in self._batches:
            self._send_batch(index)
        producer = self._producers[index]
        sequence_id = producer.next_sequence_id
        payload = single_payload(message, self._options, producer.name, sequence_id, published_ms, self._size_max)
        producer.next_sequence_id = sequence_id + 1
        self._queue.waits(answer, len(payload))
        producer.send(payload, (answer,), sequence_id, sequence_id, now_s)

    def _add_to_batch(self, index: int, message: ProducerMessage, answer: Answer) -> None:
        producer, options = self._producers[index], self._options
        entry = batch_entry(message, producer.next_sequence_id)
        producer.next_sequence_id += 1
        size = len(message.payload)
        batch = self._batches.get(index)
        if batch is not None and batch.size_bytes + size > BATCH_BYTES_MAX:
            self._send_batch(index)
            batch = None
        if batch is None:
            timer = self._loop.call_later(options.batching_max_delay_ms / 1000, self._send_batch, index)
            batch = self._batches[index] = _Batch(message, timer)
        batch.entries.append(entry)
        batch.answers.append(answer)
        batch.size_bytes += size
        self._queue.waits(answer, size)
        if batch.size_bytes >= BATCH_BYTES_MAX or 1 < options.batching_max_messages <= len(batch.entries):
            self._send_batch(index)

    def _send_batch(self, index: int) -> None:
        batch = self._batches.pop(index)
        batch.timer.cancel()
        producer, entries = self._producers[index], batch.entries
        try:
            if len(entries) == 1:  # Stored as a single message: BatchMessageContainerImpl.createOpSendMsg.
                only_id = entries[0][0].sequence_id
                payload = single_payload(batch.first, self._options, producer.name, only_id, now_ms(), self._size_max)
            else:
                payload = batch_payload(entries, self._options, producer.name, now_ms(), self._size_max)
        except MessageFault as fault:
            self._failed(batch.answers, str(fault))
            return
        first_id, last_id = entries[0][0].sequence_id, entries[-1][0].sequence_id
        producer.send(payload, batch.answers, first_id, last_id, self._loop.time())
        self._router.batch_left()

    def _stored(self, answers: list[Answer], message_ids: list[bytes]) -> None:
        """Answers messages that were stored."""
        texts = [ack_text(message_id, answer.context) for answer, message_id in zip(answers, message_ids, strict=True)]
        self._queue.give_all(answers, texts)
        self._settled()

    def _failed(self, answers: list[Answer], fault: str) -> None:
        """Answers messages that have failed."""
        texts = [error_text(SocketError.UNKNOWN_ERROR, fault, answer.context) for answer in answers]
        self._queue.give_all(answers, texts)
        self._settled()

    def _settled(self) -> None:
        """Reads the socket again if enough of its messages were answered."""
        self._count_in_flight()
        queue = self._queue
        if self._is_full and len(queue) * 2 <= self._count_max and queue.size_bytes * 2 <= IN_FLIGHT_BYTES_MAX:
            self._is_full = False
            self._client.release_reading(self)

    def _count_in_flight(self) -> None:
        """Tells the limit of all sockets how many bytes of this socket's messages wait to be stored now."""
        more = self._queue.size_bytes - self._in_flight_bytes
        self._in_flight_bytes += more
        if more > 0:
            self._in_flight.take(self._client, more)
        elif more < 0:
            self._in_flight.free(-more)
