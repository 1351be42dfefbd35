"""A producer of a topic that may be owned by any broker: messages are stored in the order of the calls of `send`, and
survive a change of owner."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.peers.attachment import Attachment
from magnetar.server.peers.peer_errors import PeerError, PeerTimeoutError, PeerUnreachableError
from magnetar.server.peers.peer_link import PeerLink
from magnetar.server.peers.read_window_rules import MessagePlace, place_of
from magnetar.server.peers.retry_rules import FATAL
from magnetar.server.peers.send_queue_rules import Outgoing, Receipt, SendQueue, SendState
from pulsar_proto.errors import NotAllowed, PulsarError, error_of_code
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame, simple_frame

if TYPE_CHECKING:
    from magnetar.server.peers.peer_client import PeerClient

SEND_SECONDS = 30.0
"""The default deadline of a message (sendTimeout)."""
EXPIRY_CHECK_SECONDS = 0.5
"""How often deadlines of pending messages are looked at."""

Stored = asyncio.Future[MessagePlace]
Type = pb.BaseCommand


class NewMessage(NamedTuple):
    """A message to be sent."""

    value: bytes | None
    """The content, or None for a tombstone."""
    key: str | None = None
    properties: Mapping[str, str] = {}
    event_time_ms: int = 0
    replicate_to: tuple[str, ...] = ()
    """The clusters that get the message. With an empty tuple, the namespace's policies decide."""


class PeerProducer(Attachment):
    """One producer. `PeerClient.producer` makes it."""

    def __init__(
        self,
        client: "PeerClient",
        topic: TopicName,
        rng: random.Random,
        *,
        name: str = "",
        schema: pb.Schema | None = None,
        clock_ms: Callable[[], int],
    ) -> None:
        """With an empty `name` the broker names the producer, and the name stays the same over reconnects."""
        super().__init__(client, topic, rng)
        self.name = name
        self.schema_version = b""
        """The version that the broker gave to `schema` at the topic."""
        self._is_named = bool(name)
        self._schema = schema
        self._clock_ms = clock_ms
        self._epoch = 0
        self._queue: SendQueue[Stored] = SendQueue()
        self._room = asyncio.Event()
        """Set when a message that waits for room in the queue should check again."""
        self._turn = asyncio.Lock()
        """Held by the caller whose message is the next to be added, so that messages that wait keep their order."""
        self._expiry: asyncio.TimerHandle | None = None

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(self, message: NewMessage, deadline_seconds: float = SEND_SECONDS) -> MessagePlace:
        """Sends a message, and returns its place once the message is stored. The place (-1, -1) means that the topic
        had stored the message before a reconnect. Raises PeerTimeoutError when no receipt comes in time; the message
        may be stored nevertheless. Raises PulsarError for a refusal, and PeerUnreachableError when the producer is
        closed."""
        deadline_s = time.monotonic() + deadline_seconds
        try:
            async with asyncio.timeout(deadline_seconds):
                async with self._turn:
                    if not self._queue.has_begun:
                        await self.attached(deadline_seconds)
                    size = len(message.value or b"") + len(message.key or "")
                    while not self._has_ended and not self._queue.has_room(size):
                        self._room.clear()
                        await self._room.wait()
                    self._check_alive()
                    stored = self._add(message, deadline_s)
                return await stored
        except TimeoutError:
            raise PeerTimeoutError(f"{self.topic}: no receipt within {deadline_seconds:g} s") from None

    def _add(self, message: NewMessage, deadline_s: float) -> Stored:
        stored: Stored = asyncio.get_running_loop().create_future()
        pending = self._queue.add(self._encoded(message), deadline_s, stored)
        if self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(EXPIRY_CHECK_SECONDS, self._check_deadlines)
        if self._queue.state is SendState.ATTACHED and self._link is not None:
            self._send(self._link, pending)
        return stored

    def _encoded(self, message: NewMessage) -> bytes:
        metadata = pb.MessageMetadata(
            producer_name=self.name, sequence_id=self._queue.next_sequence_id, publish_time=self._clock_ms()
        )
        if message.key is not None:
            metadata.partition_key = message.key
            metadata.partition_key_b64_encoded = False
        if message.event_time_ms:
            metadata.event_time = message.event_time_ms
        for name, value in message.properties.items():
            metadata.properties.add(key=name, value=value)
        metadata.replicate_to.extend(message.replicate_to)
        if self.schema_version:
            metadata.schema_version = self.schema_version
        if message.value is None:
            metadata.null_value = True
        else:
            metadata.uncompressed_size = len(message.value)
        return build_payload(metadata, message.value or b"")

    def _send(self, link: PeerLink, pending: Outgoing[Stored]) -> None:
        command = pb.CommandSend(producer_id=self._handler_id, sequence_id=pending.sequence_id)
        link.send(send_frame(command, pending.payload))

    def _check_deadlines(self) -> None:
        self._expiry = None
        for pending in self._queue.expired(time.monotonic()):
            _fail(pending.token, PeerTimeoutError(f"{self.topic}: no receipt in time"))
        self._room.set()
        if len(self._queue):
            self._expiry = asyncio.get_running_loop().call_later(EXPIRY_CHECK_SECONDS, self._check_deadlines)

    # --- Attachment --------------------------------------------------------------------------------------------------

    def _take_handler_id(self, link: PeerLink) -> int:
        return link.attach_producer(self)

    async def _attach(self, link: PeerLink, handler_id: int) -> None:
        create = pb.CommandProducer(
            topic=self.topic.full,
            producer_id=handler_id,
            epoch=self._epoch,
            user_provided_producer_name=self._is_named,
            producer_access_mode=pb.Shared,
        )
        if self.name:
            create.producer_name = self.name
        if self._schema is not None:
            create.schema.CopyFrom(self._schema)
        self._epoch += 1
        command = pb.BaseCommand(type=Type.PRODUCER, producer=create)
        success = (await self._client.request(link, command, "producer")).producer_success
        if self._is_lost:
            return
        self.name = success.producer_name
        self.schema_version = success.schema_version
        settled, again = self._queue.attached(success.last_sequence_id)
        for pending in settled:
            _settle(pending.token, MessagePlace(-1, -1))
        for pending in again:
            self._send(link, pending)
        self._room.set()

    def _detached(self) -> None:
        self._queue.detached()

    def _failed(self) -> None:
        assert self.failure is not None
        self._end(self.failure)

    async def close(self) -> None:
        """Closes the producer. Messages without receipts fail with PeerUnreachableError."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._end(PeerUnreachableError(f"{self.topic}: the producer was closed"))
        await super().close()

    def _end(self, error: PulsarError | PeerError) -> None:
        for pending in self._queue.closed():
            _fail(pending.token, error)
        self._room.set()

    def _close_frame(self, handler_id: int) -> bytes:
        close = pb.CommandCloseProducer(producer_id=handler_id, request_id=self._client.unawaited_request_id())
        return simple_frame(pb.BaseCommand(type=Type.CLOSE_PRODUCER, close_producer=close))

    @property
    def _has_ended(self) -> bool:
        return self._queue.state is SendState.CLOSED

    def _check_alive(self) -> None:
        self._raise_failure()
        if self._has_ended:
            raise PeerUnreachableError(f"{self.topic}: the producer was closed")

    # --- what the broker sends ---------------------------------------------------------------------------------------

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        match command.type:
            case Type.SEND_RECEIPT:
                self._on_receipt(command.send_receipt)
            case Type.SEND_ERROR:
                self._on_refusal(command.send_error)
            case Type.CLOSE_PRODUCER:
                self._last_error = "the broker closed the producer"
                self._leave()

    def _on_receipt(self, receipt: pb.CommandSendReceipt) -> None:
        meaning, pending = self._queue.receipt(receipt.sequence_id)
        if pending is not None:
            _settle(pending.token, place_of(receipt.message_id))
            self._room.set()
        elif meaning is Receipt.GAP:
            self._detach_at_broker(f"a receipt before that of {receipt.sequence_id} was lost")

    def _on_refusal(self, refusal: pb.CommandSendError) -> None:
        """Fails the message if no further attempt can succeed. After any other error the producer attaches anew and
        sends the message again (ProducerImpl and ClientCnx.handleSendError)."""
        error = error_of_code(refusal.error, refusal.message)
        if isinstance(error, (*FATAL, NotAllowed)):
            pending = self._queue.refused(refusal.sequence_id)
            if pending is not None:
                _fail(pending.token, error)
                self._room.set()
            return
        self._detach_at_broker(str(error))

    def _detach_at_broker(self, why: str) -> None:
        self._last_error = why
        link = self._leave()
        if link is not None:
            link.send(self._close_frame(self._handler_id))


def _settle(stored: Stored, place: MessagePlace) -> None:
    if not stored.done():
        stored.set_result(place)


def _fail(stored: Stored, error: PulsarError | PeerError) -> None:
    if not stored.done():
        stored.set_exception(error)
