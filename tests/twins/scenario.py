"""Makes one scenario: what two connections, a producer's and a consumer's, say to a server about topics of their own.

The same seed makes the same scenario, and another name gives it other topics, so that it can be repeated.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import google_crc32c

from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import simple_frame
from tests.server.fakes import command
from tests.twins.fields import NUMBERS_OF_32_BITS, Fields, Sane

PRODUCING, CONSUMING = 0, 1
"""The two connections."""
TENANT = "public"
PLAIN, DEDUPLICATING = f"{TENANT}/default", f"{TENANT}/dedup"
LEDGER, TRANSACTION = (1 << 27) + 12345, (1 << 27) + 54321
"""Stand in frames for the ledger of the first receipt and for the newest transaction of the scenario."""
REDELIVER = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
WEIGHTS = {
    "PRODUCER": 8,
    "SUBSCRIBE": 12,
    "FLOW": 14,
    "ACK": 20,
    "SEEK": 4,
    REDELIVER: 6,
    "CLOSE_CONSUMER": 3,
    "GET_LAST_MESSAGE_ID": 3,
    "NEW_TXN": 4,
    "ADD_PARTITION_TO_TXN": 4,
    "ADD_SUBSCRIPTION_TO_TXN": 4,
    "END_TXN": 5,
    "TC_CLIENT_CONNECT_REQUEST": 3,
}
"""How often the commands come, where it is not once."""
OF_CONSUMERS = (
    "SUBSCRIBE",
    "FLOW",
    "ACK",
    "REDELIVER_UNACKNOWLEDGED_MESSAGES",
    "SEEK",
    "UNSUBSCRIBE",
    "CLOSE_CONSUMER",
)
LEFT_OUT = (pb.BaseCommand.CONNECT, pb.BaseCommand.WATCH_TOPIC_LIST)
"""The first is said by every connection; the answers to the second depend on what others do."""
COMMAND_FIELDS: dict[int, Any] = {each.number: each for each in pb.BaseCommand.DESCRIPTOR.fields[1:]}
OF_TRANSACTIONS = ("txnid_most_bits", "txnid_least_bits")
UNUSUAL = (*OF_TRANSACTIONS, "batch_index", "ack_set", "batch_size", "first_chunk_message_id")
"""Fields that an acknowledgement of whole messages does not have."""
OF_CHUNKS = ("uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size")
CLOSE = b""
UNLOAD = b"unload"
"""Steps that close the connection, or all of them and have the first topic unloaded, instead of sending a frame."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`topics` are the persistent ones. `greetings` are the commands that a connection begins with, each of which is
    answered, except FLOW. `steps` are pairs of a connection and a frame, or several frames."""

    topics: list[str]
    greetings: tuple[list[bytes], list[bytes]]
    steps: list[tuple[int, bytes]] = field(default_factory=list)


def scenario(seed: int, name: str) -> Scenario:
    return _Writer(seed, name).write()


def framed(kind: int, body: bytes, payload: bytes = b"") -> bytes:
    encoded = varint(8) + varint(kind) + varint(kind << 3 | 2) + varint(len(body)) + body
    return struct.pack(">II", 4 + len(encoded) + len(payload), len(encoded)) + encoded + payload


class _Writer:
    def __init__(self, seed: int, name: str) -> None:
        self._chooser = random.Random(seed)
        choose = self._chooser.choice
        self._wild = choose((0.05, 0.1, 0.2, 0.4))
        self._fields = Fields(self._chooser, 0.0)
        self._namespace = choose((PLAIN, PLAIN, DEDUPLICATING))
        place = f"{self._namespace}/{name}"
        self._topics = [f"persistent://{place}a", f"persistent://{place}b", f"non-persistent://{place}n"]
        self._topic = choose([*[self._topics[0]] * 8, *self._topics])
        self._producer = f"p{name}"
        self._subscription_type = self._chooser.randrange(4)
        self._sequence_id = self._chooser.randrange(6)
        self._request_id = 0
        self._is_transactional = False

    def write(self) -> Scenario:
        made = Scenario(self._topics[:2], self._greetings())
        begin = command("NEW_TXN", "newTxn", request_id=9003, tc_id=0, txn_ttl_millis=1_000_000)
        for _ in range(self._chooser.randrange(3)):
            made.steps.append((PRODUCING, simple_frame(begin)))
        kinds = [pb.BaseCommand.Type.Name(each) for each in TABLE if each not in LEFT_OUT]  # type: ignore[arg-type]
        weights = [WEIGHTS.get(each, 1) for each in kinds]
        for _ in range(self._chooser.randint(4, 30)):
            share = self._chooser.random()
            connection = self._chooser.choice((PRODUCING, CONSUMING))
            if share < 0.4:
                made.steps.append((PRODUCING, self._sends()))
            elif share < 0.42:
                made.steps.append((connection, self._chooser.randbytes(self._chooser.randint(1, 40))))
            elif share < 0.44:
                made.steps.append((connection, CLOSE))
            elif share < 0.46:
                made.steps.append((connection, UNLOAD))
            elif share < 0.52:
                made.steps.append((CONSUMING, self._usual_ack()))
            else:
                kind = self._chooser.choices(kinds, weights)[0]
                usual = CONSUMING if kind in OF_CONSUMERS else PRODUCING
                made.steps.append((usual if self._fields.chance(0.9) else connection, self._command(kind)))
        return made

    def _greetings(self) -> tuple[list[bytes], list[bytes]]:
        topic = {"topic": self._topic}
        produce = command("PRODUCER", "producer", producer_id=0, request_id=9000, producer_name=self._producer, **topic)
        more = {"subscription": "s", "subType": self._subscription_type, "initialPosition": 1}
        subscribe = command("SUBSCRIBE", "subscribe", consumer_id=0, request_id=9001, **topic, **more)
        flow = command("FLOW", "flow", consumer_id=0, messagePermits=self._chooser.choice((3, 100, 100)))
        consume = [subscribe, flow] if self._fields.chance(0.9) else []
        coordinate = command("TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest", request_id=9002, tc_id=0)
        return [simple_frame(produce), simple_frame(coordinate)], [simple_frame(each) for each in consume]

    def _few(self, count: int) -> Callable[[], int]:
        return lambda: self._chooser.randrange(count)

    def _seldom_one(self) -> int:
        return 1 if self._fields.chance(0.03) else 0

    def _command(self, kind: str) -> bytes:
        self._request_id += 1
        self._fields.wild = self._wild * 1.5 if self._fields.chance(0.4) else 0.0
        topic = self._topic if self._fields.chance(0.8) else self._chooser.choice(self._topics)
        sane: Sane = {
            "topic": topic,
            "partitions": topic,
            "namespace": self._namespace,
            "producer_id": self._seldom_one,
            "consumer_id": self._seldom_one,
            "request_id": self._request_id,
            "subscription": lambda: self._chooser.choice(("s", "s", "s", "s2")),
            "subType": self._subscription_type,
            "initialPosition": 1,
            "durable": 1,
            "messagePermits": lambda: self._chooser.choice((1, 5, 100)),
            "ack_type": self._seldom_one,
            "message_id": 0,
            "ledgerId": LEDGER,
            "entryId": self._few(12),
            "txnid_most_bits": 0,
            "txnid_least_bits": TRANSACTION,
            "tc_id": 0,
            "txn_ttl_millis": 1_000_000,
            "producer_name": self._chooser.choice("pqr"),
            **dict.fromkeys(("epoch", "consumer_epoch", "validation_error", "keySharedMode", "priority_level"), 0),
            **dict.fromkeys(("start_message_rollback_duration_sec", "topic_epoch"), 0),
            "message_publish_time": 1,
            "schema_data": b"",
        }
        self._fields.left_out = UNUSUAL if kind == "ACK" and self._fields.chance(0.7) else ()
        number = pb.BaseCommand.Type.Value(kind)
        made = self._fields.message(COMMAND_FIELDS[number].message_type, sane)
        return framed(number, made)

    def _usual_ack(self) -> bytes:
        """Returns what most clients send: acknowledgements of single messages, each in a frame of its own."""
        acks = []
        for _ in range(self._chooser.randint(1, 4)):
            ack = pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual)
            ack.message_id.add(ledgerId=LEDGER, entryId=self._chooser.randrange(8))
            acks.append(framed(pb.BaseCommand.ACK, ack.SerializeToString()))
        return b"".join(acks)

    def _sends(self) -> bytes:
        self._fields.wild = self._wild if self._fields.chance(0.5) else 0.0
        self._fields.left_out = ()
        return b"".join(self._send() for _ in range(self._chooser.choice((1, 1, 2, 5, 20))))

    def _send(self) -> bytes:
        count = self._chooser.choice((1, 1, 1, 2, 5, 64, 70)) if self._fields.chance(0.4) else 1
        self._is_transactional = self._fields.chance(0.3)
        payload = self._payload(count)
        last = self._sequence_id + count - 1
        sane: Sane = {
            "producer_id": self._seldom_one,
            "sequence_id": self._sequence_id,
            "highest_sequence_id": last,
            "num_messages": count,
            "txnid_most_bits": 0,
            "txnid_least_bits": TRANSACTION,
        }
        body = b""
        for each in pb.CommandSend.DESCRIPTOR.fields:
            often = 0.998 if each.is_required or (each.name == "num_messages" and count > 1) else 0.1
            if each.name in OF_TRANSACTIONS:
                often = 0.98 if self._is_transactional else 0.01
            if self._fields.chance(often):
                body += self._fields.field(each, sane)
        self._sequence_id = last + 1
        return framed(pb.BaseCommand.SEND, body, payload)

    def _payload(self, count: int) -> bytes:
        """Returns what follows the command of a SEND: checksum, metadata, and a message or a batch, seldom damaged."""
        wild = self._fields.wild
        content = b"z" * self._chooser.choice((0, 5, 5, 100, 100, 100, 5000, 5000, 150_000))
        if count > 1:
            content = b"".join(self._single(number) for number in range(count))
            if self._fields.chance(wild / 2):
                content = content[: self._chooser.randrange(len(content) + 1)]
        metadata = self._metadata(count)
        size = len(metadata) if not self._fields.chance(wild / 20) else self._chooser.choice((0, 5, 2**31, 2**32 - 1))
        rest = bytearray(struct.pack(">I", size) + metadata + content)
        if self._fields.chance(wild / 3):
            rest[self._chooser.randrange(len(rest))] ^= 1 << self._chooser.randrange(8)
        style = self._chooser.random()
        checksum = google_crc32c.value(bytes(rest)) ^ (0.96 < style < 0.98)
        if style < 0.9:
            return b"\x0e\x01" + struct.pack(">I", checksum) + rest
        if style < 0.96:
            return bytes(rest)
        return b"\x0e\x01" + struct.pack(">I", checksum) + rest if style < 0.99 else bytes(rest[: len(rest) // 3])

    def _metadata(self, count: int) -> bytes:
        sane: Sane = {
            "producer_name": self._chooser.choice("pqr"),
            "sequence_id": self._sequence_id,
            "publish_time": 1_700_000_000_000,
            "partition_key": self._chooser.choice(("k1", "k2", "k3", "")),
            "txnid_most_bits": 0,
            "txnid_least_bits": TRANSACTION,
            "uuid": self._chooser.choice(("u1", "u2")),
            "chunk_id": self._few(3),
            "num_chunks_from_msg": 3,
            "total_chunk_msg_size": 15,
            "compression": 0,
            "deliver_at_time": lambda: self._chooser.choice((1, 1_700_000_000_000, 2**62)),
        }
        is_chunk, is_delayed = map(self._fields.chance, (0.15, 0.1))
        seldom = 0.02 + self._fields.wild / 4
        often_by_name = {
            **dict.fromkeys(("partition_key", "ordering_key"), 0.5),
            **dict.fromkeys(("num_messages_in_batch", "marker_type", "encryption_keys"), self._fields.wild / 4),
            **dict.fromkeys(OF_TRANSACTIONS if self._is_transactional else (), 1.0),
            **dict.fromkeys(OF_CHUNKS if is_chunk else (), 1.0),
            **dict.fromkeys(("deliver_at_time",) if is_delayed else (), 1.0),
        }
        made = b""
        for each in pb.MessageMetadata.DESCRIPTOR.fields:
            often = 0.998 if each.is_required else often_by_name.get(each.name, seldom)
            for _ in range(self._chooser.choice((1, 3)) if each.is_repeated else 1):
                made += self._fields.field(each, sane) if self._fields.chance(often) else b""
        if count > 1:
            said = count if not self._fields.chance(self._fields.wild / 2) else self._chooser.choice(NUMBERS_OF_32_BITS)
            made += varint(pb.MessageMetadata.NUM_MESSAGES_IN_BATCH_FIELD_NUMBER << 3) + varint(said)
        return made

    def _single(self, number: int) -> bytes:
        sane: Sane = {"payload_size": 3, "partition_key": "k1", "sequence_id": self._sequence_id + number}
        made = self._fields.message(pb.SingleMessageMetadata.DESCRIPTOR, sane)
        return struct.pack(">I", len(made)) + made + b"abc"
