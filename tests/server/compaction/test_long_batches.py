"""Batches that a client made to be long work: compaction and its readers process them in portions, or leave the batch
whole.

The server's loop is watched (`serving`): a callback that holds it for long fails the test.
"""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.compaction.stored_entry import BATCH_MESSAGES_MAX
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress
from pulsar_proto.records.payload import METADATA_BYTES_MAX, build_batch, build_payload, parse_metadata
from pulsar_proto.wire.commands import send_frame, simple_frame
from pulsar_proto.wire.framing import MAX_MESSAGE_SIZE
from tests.server.compaction.messages import metadata
from tests.server.fakes import command
from tests.server.served import Served, Wire, serving

TOPIC = "persistent://public/default/long"
REST = "/admin/v2/persistent/public/default/long"
COMPRESSIONS = (pb.ZLIB, pb.LZ4, pb.ZSTD, pb.SNAPPY)


def claiming(packed: bytes, compression: pb.CompressionType.ValueType, size: int, messages: int) -> bytes:
    """Makes a batch that claims this compression, size and number of messages, whatever it holds."""
    head = metadata(
        num_messages_in_batch=messages, compression=compression, uncompressed_size=size, partition_key="bomb"
    )
    return build_payload(head, packed)


def batch_of(singles: Iterable[tuple[pb.SingleMessageMetadata, bytes]], count: int) -> bytes:
    plain = build_batch(singles)
    return claiming(compress(pb.ZLIB, plain), pb.ZLIB, len(plain), count)


def long_batches() -> dict[str, bytes]:
    zeros = 120 << 20
    tiny = pb.SingleMessageMetadata(partition_key="k", payload_size=0)
    last_of_many = pb.SingleMessageMetadata(partition_key="many", payload_size=0)
    properties = pb.SingleMessageMetadata(payload_size=0, partition_key="p")
    for _ in range(METADATA_BYTES_MAX // 7):
        properties.properties.add(key="", value="")
    too_long = pb.SingleMessageMetadata.FromString(properties.SerializeToString() * 9)
    many = build_batch([(tiny, b"v")] * 400_000)
    batches = {
        "120 MB of zeros": claiming(zlib.compress(bytes(zeros), 9), pb.ZLIB, zeros, 1),
        "zeros, and says that there are few": claiming(zlib.compress(bytes(zeros), 9), pb.ZLIB, 100_000, 1),
        "more messages than a batch may have": claiming(compress(pb.ZLIB, many), pb.ZLIB, len(many), 400_000),
        "claims a billion messages": claiming(b"x", pb.NONE, 1, 1 << 30),
        "claims two gigabytes": claiming(b"x", pb.ZLIB, (1 << 31) - 1, 1),
        "as many messages as there may be": batch_of([(last_of_many, b"v")] * BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX),
        "long metadata of messages": batch_of([(properties, b"")] * 30, 30),
        "metadata that is too long": batch_of([(too_long, b"")], 1),
    }
    large = pb.SingleMessageMetadata(partition_key="large", payload_size=0)
    half = bytes(MAX_MESSAGE_SIZE // 2 - 100)
    for compression in COMPRESSIONS:
        plain = build_batch([(large, half), (tiny, b"x"), (large, half)])
        name = pb.CompressionType.Name(compression)
        batches[f"large messages by {name}"] = claiming(compress(compression, plain), compression, len(plain), 3)
    return batches


@pytest.fixture(scope="module")
def batches() -> dict[str, bytes]:
    return long_batches()


def publish(wire: Wire, payloads: Iterable[bytes]) -> None:
    wire.say(simple_frame(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=1)))
    assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
    for number, payload in enumerate(payloads):
        wire.say(send_frame(pb.CommandSend(producer_id=1, sequence_id=number), payload))
        assert wire.until(pb.BaseCommand.SEND_RECEIPT) is not None


def compact(served: Served) -> None:
    served.get(f"{REST}/compaction", "PUT")
    while (status := served.json(f"{REST}/compaction")["status"]) == "RUNNING":
        pass
    assert status == "SUCCESS"


@pytest.mark.slow
def test_long_batches_are_compacted_and_read_without_stopping_anybody(
    tmp_path: Path, batches: dict[str, bytes]
) -> None:
    with serving(tmp_path) as served:
        wire = Wire(served.port)
        payloads = list(batches.values())
        publish(wire, [*payloads * 3, build_payload(metadata(partition_key="last"), b"last")])
        compact(served)
        subscribe: dict[str, Any] = {"subscription": "r", "subType": 0, "consumer_id": 1, "read_compacted": True}
        earliest = pb.MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)
        subscribe |= {"durable": False, "start_message_id": earliest}
        wire.say(simple_frame(command("SUBSCRIBE", "subscribe", topic=TOPIC, request_id=2, **subscribe)))
        assert wire.until(pb.BaseCommand.SUCCESS) is not None
        wire.say(simple_frame(command("FLOW", "flow", consumer_id=1, messagePermits=1_000_000_000)))
        seen: list[bytes] = []
        while not seen or not seen[-1].endswith(b"last"):
            made, payload = wire.frame()
            assert made is not None
            if made.type == pb.BaseCommand.MESSAGE:
                seen.append(payload)
        for what in ("120 MB of zeros", "claims a billion messages", "more messages than a batch may have"):
            assert seen.count(batches[what]) == 3, f"{what}: a batch that nobody can look into is kept"
        assert any(parse_metadata(each).num_messages_in_batch == BATCH_MESSAGES_MAX for each in seen)
        wire.say(simple_frame(command("GET_LAST_MESSAGE_ID", "getLastMessageId", consumer_id=1, request_id=3)))
        assert wire.until(pb.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE) is not None
        wire.close()
