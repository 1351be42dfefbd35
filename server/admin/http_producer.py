"""A producer for one call that publishes over HTTP. The topic takes the messages of this producer as it takes those of
a client, and gives receipts and refusals to an `HttpProducer` instead of a client's socket.

The receipts and refusals of a producer come in the order of its SENDs (`Producer.refuse`, `CheckedPublisher`), so the
n-th answer belongs to the n-th message.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct

from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.publishing.producer import Producer, Sends
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.frame_encoders import Receipt

CLIENT_VERSION = "Magnetar-HTTP"
PROTOCOL_VERSION = 20
PRODUCER_ID = 1

CLOSED_MEANWHILE = "The topic closed its producers before it confirmed the message, which may be stored or not"

_SIZES = Struct(">II").unpack_from

Stored = Position | str
"""The outcome of a message: its position, or the reason why it was not stored."""


class HttpProducer:
    """Implements `ClientConnection` and `ReceiptWriter` for one producer of one topic. The object is used on the event
    loop's thread only. The caller closes the producer at the end."""

    def __init__(self, remote_address: str) -> None:
        self.remote_address = remote_address
        self.client_version = CLIENT_VERSION
        self.protocol_version = PROTOCOL_VERSION
        self.is_open = True
        self.is_writable = True
        self._answers: list[Stored] = []
        self._wanted = 0
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def connect(self, topic: BaseTopic, name: str, schema: pb.Schema) -> Producer:
        """Connects to the topic and returns the producer. If the name is empty, the broker generates a name. Calls at
        the same time then have different names, so that none of them is refused with ProducerBusy. Raises PulsarError
        when the topic refuses the producer."""
        command = pb.CommandProducer(
            topic=topic.name.full,
            producer_id=PRODUCER_ID,
            request_id=1,
            user_provided_producer_name=bool(name),
            schema=schema,
            producer_access_mode=pb.Shared,
        )
        if name:
            command.producer_name = name
        return await topic.add_producer(self, command, self)

    async def publish(self, producer: Producer, sends: Sends) -> list[Stored]:
        """Publishes the messages, waits for all outcomes, and returns the outcome of each message in order."""
        if not sends:
            return []
        self._wanted = len(sends)
        producer.publish(sends)
        if producer.is_closed:
            self._give_up()
        await self._answered
        return self._answers

    # --- ReceiptWriter -----------------------------------------------------------------------------------------------

    def write_run(self, receipts: Sequence[Receipt], ledger_id: int, first_entry_id: int) -> None:
        self._add(Position(ledger_id, first_entry_id + index) for index in range(len(receipts)))

    def write_unstored(self, receipts: Sequence[Receipt], ledger_id: int, entry_id: int) -> None:
        self._add(Position(ledger_id, entry_id) for _ in receipts)

    def _add(self, answers: Iterable[Stored]) -> None:
        self._answers += answers
        if self._wanted and len(self._answers) >= self._wanted and not self._answered.done():
            self._answered.set_result(None)

    # --- ClientConnection --------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        commands = map(parse_command, _commands(data))
        self._add(each.send_error.message for each in commands if each.type == pb.BaseCommand.SEND_ERROR)

    def write_frames(self, chunks: list[bytes]) -> None:
        self.write(b"".join(chunks))

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Does nothing, because this connection is always writable."""

    def throttle_reading(self, key: object) -> None:
        """Has no effect, because the whole call has been read. Later calls wait for the rate before they publish."""

    def release_reading(self, key: object) -> None:
        """Has no effect, like `throttle_reading`."""

    def close_producer(self, producer_id: int) -> None:
        self._give_up()

    def close_consumer(self, consumer_id: int) -> None:
        """Does nothing, because this connection has no consumers."""

    async def check_liveness(self) -> bool:
        return self.is_open

    def close(self, reason: str) -> None:
        self.is_open = False
        self._give_up()

    def _give_up(self) -> None:
        """Called when the topic will send no more answers: gives each unanswered message the outcome CLOSED_MEANWHILE,
        because it is unknown whether the message was stored."""
        self._answers += [CLOSED_MEANWHILE] * (self._wanted - len(self._answers))
        if self._wanted and not self._answered.done():
            self._answered.set_result(None)


def _commands(data: bytes) -> Iterator[bytes]:
    """Yields the command of each frame. The frames were written by the topic's own code, so they are not checked."""
    at = 0
    while at < len(data):
        total, size = _SIZES(data, at)
        yield data[at + 8 : at + 8 + size]
        at += 4 + total
