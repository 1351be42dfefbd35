"""Sockets that publish, over a real server: what is answered is stored, in order, and as the message said."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.websocket import producer_session
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import split_batch
from tests.server.websocket.websocket_scene import TOPIC, Socket, Sockets, sockets, stored

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "websocket_exchanges.json").read_text())["sockets"]
PRODUCER = f"producer/{TOPIC}"
NAME = "persistent://public/default/ws"


def message(text: str = "x", **members: Any) -> dict[str, Any]:
    return {"payload": b64encode(text.encode()).decode(), **members}


def place(answer: dict[str, Any]) -> pb.MessageIdData:
    assert answer["result"] == "ok", answer
    return pb.MessageIdData.FromString(b64decode(answer["messageId"]))


async def admin(scene: Sockets, method: str, path: str, body: str | None = None) -> None:
    status, text = await scene.web.call(method, f"/admin/v2/persistent/public/default/{path}", body)
    assert status in (200, 204), text


async def test_what_apache_was_asked_is_answered_as_by_apache(tmp_path: Path) -> None:
    """The same members and codes; ids and the words of errors are ours."""
    async with sockets(tmp_path) as scene, scene.open(f"{PRODUCER}?producerName=wsp") as socket:
        log = VECTORS[0]["log"]
        for (_, said), (_, answered) in zip(log[::2], log[1::2], strict=True):
            ours, theirs = await socket.ask(said), json.loads(answered)
            assert list(ours) == list(theirs)
            for odd in ("messageId", "errorMsg"):
                assert (odd in ours) == (odd in theirs)
                ours.pop(odd, None)
                theirs.pop(odd, None)
            assert ours == theirs


async def test_everything_that_a_message_says_is_stored(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene, scene.open(f"{PRODUCER}?producerName=me&initialSequenceId=41") as socket:
        said = message(
            "hello",
            key="k",
            context="c",
            properties={"a": "1", "b": "2"},
            eventTime="2026-11-22T10:00:00.123Z",
            replicationClusters=["r1", "r2"],
            deliverAt=1_000,
        )
        answer = await socket.ask(said)
        assert answer["context"] == "c"
        await socket.ask(message("later", deliverAfterMs=1))
        (id_, first, body), (_, second, _) = await stored(scene, NAME, 2)
        assert (id_.ledgerId, id_.entryId) == (place(answer).ledgerId, place(answer).entryId)
        assert body == b"hello"
        assert (first.producer_name, first.sequence_id, first.partition_key) == ("me", 42, "k")
        assert {pair.key: pair.value for pair in first.properties} == {"a": "1", "b": "2"}
        assert list(first.replicate_to) == ["r1", "r2"]
        assert (first.event_time, first.deliver_at_time, first.uncompressed_size) == (1795341600123, 1000, 5)
        assert (second.sequence_id, second.deliver_at_time) == (43, second.publish_time + 1)


@pytest.mark.parametrize("compression", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
async def test_bodies_are_compressed_as_the_query_says(tmp_path: Path, compression: str) -> None:
    async with sockets(tmp_path) as scene, scene.open(f"{PRODUCER}?compressionType={compression}") as socket:
        await socket.ask(message("x" * 1000))
        ((_, metadata, body),) = await stored(scene, NAME, 1)
        assert pb.CompressionType.Name(metadata.compression) == compression
        assert len(body) < 100
        assert decompress(metadata.compression, body, metadata.uncompressed_size) == b"x" * 1000


async def test_a_batch_is_one_entry_and_each_message_has_its_own_id(tmp_path: Path) -> None:
    query = "batchingEnabled=true&batchingMaxMessages=3&batchingMaxPublishDelay=3600000&compressionType=LZ4"
    async with sockets(tmp_path) as scene, scene.open(f"{PRODUCER}?{query}") as socket:
        for text in "abc":
            await socket.say(message(text, key=text, properties={"p": text}, context=text))
        answers = [await socket.heard() for _ in range(3)]
        assert [answer["context"] for answer in answers] == ["a", "b", "c"]
        assert [(place(each).entryId, place(each).batch_index, place(each).batch_size) for each in answers] == [
            (0, 0, 3),
            (0, 1, 3),
            (0, 2, 3),
        ]
        ((_, metadata, body),) = await stored(scene, NAME, 1)
        assert (metadata.num_messages_in_batch, metadata.sequence_id, metadata.highest_sequence_id) == (3, 0, 2)
        plain = decompress(metadata.compression, body, metadata.uncompressed_size)
        found = [(single.partition_key, single.sequence_id, text) for single, text in split_batch(plain, 3)]
        assert found == [("a", 0, b"a"), ("b", 1, b"b"), ("c", 2, b"c")]


async def test_a_batch_leaves_after_its_delay_and_before_a_message_that_does_not_fit(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene:
        async with scene.open(f"{PRODUCER}?batchingEnabled=true&batchingMaxPublishDelay=1") as socket:
            assert place(await socket.ask(message("alone"))).batch_size == 0
        async with scene.open(f"{PRODUCER}?batchingEnabled=true&batchingMaxPublishDelay=3600000") as socket:
            for text, delay in (("a", 0), ("b", 0), ("c", 1)):
                await socket.say(message(text, deliverAfterMs=delay))
            places = [place(await socket.heard()) for _ in range(3)]
            assert [(each.entryId, each.batch_size) for each in places] == [(1, 2), (1, 2), (2, 0)]


async def test_messages_of_a_partitioned_topic_go_where_their_keys_say(tmp_path: Path) -> None:
    """The hashes are those of Java's String.hashCode: "a" is 97, "b" 98, "aa" 3104."""
    async with sockets(tmp_path) as scene:
        await admin(scene, "PUT", "ws/partitions", "4")
        async with scene.open(f"{PRODUCER}?messageRoutingMode=RoundRobinPartition") as socket:
            for key in ("a", "b", "aa"):
                await socket.say(message(key, key=key))
            assert [place(await socket.heard()).partition for _ in range(3)] == [97 % 4, 98 % 4, 3104 % 4]
            for _ in range(8):
                await socket.say(message())
            without = [place(await socket.heard()).partition for _ in range(8)]
            assert Counter(without) == {0: 2, 1: 2, 2: 2, 3: 2}
        async with scene.open(f"{PRODUCER}?hashingScheme=Murmur3_32Hash") as socket:
            for _ in range(8):
                await socket.say(message())
            assert len({place(await socket.heard()).partition for _ in range(8)}) == 1


async def test_answers_come_in_the_order_of_the_texts(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene:
        await admin(scene, "PUT", "ws/partitions", "3")
        async with scene.open(f"{PRODUCER}?messageRoutingMode=RoundRobinPartition") as socket:
            for number in range(300):
                await socket.say(message(context=str(number)) if number % 7 else {"context": str(number)})
            answers = [await socket.heard() for _ in range(300)]
            assert [answer["context"] for answer in answers] == [str(number) for number in range(300)]
            assert [answer["result"] for answer in answers] == [
                "ok" if number % 7 else "send-error:7" for number in range(300)
            ]


async def test_a_producer_comes_back_after_its_topic_was_unloaded(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene, scene.open(PRODUCER) as socket:
        for number in range(200):
            await socket.say(message(str(number)))
            if number % 50 == 25:
                await admin(scene, "PUT", "ws/unload")
        places = [place(await socket.heard()) for _ in range(200)]
        found = await stored(scene, NAME, 200)
        at = {(id_.ledgerId, id_.entryId): body for id_, _, body in found}
        while len(set(at.values())) < 200:
            found = await stored(scene, NAME, len(found) + 1)
            at = {(id_.ledgerId, id_.entryId): body for id_, _, body in found}
        assert [at[each.ledgerId, each.entryId] for each in places] == [b"%d" % number for number in range(200)]


async def test_the_end_of_a_topic_is_told_and_ends_the_socket(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene:
        async with scene.open(PRODUCER) as socket:
            await socket.ask(message())
            await admin(scene, "POST", "ws/terminate")
            code, reason = await socket.end()
            assert (code, "terminated" in reason) == (1011, True), reason
        status, reason = await scene.refused(PRODUCER)
        assert (status, "terminated" in reason) == (503, True)


async def test_what_cannot_be_produced_to_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with sockets(tmp_path, maxMessageSize="1000") as scene:
        assert (await scene.refused("producer/persistent/public/nope/x"))[0] == 404
        async with scene.open(f"{PRODUCER}?producerName=me") as socket:
            hearing = asyncio.ensure_future(socket.heard())  # so that it answers the ping that asks whether it lives
            status, reason = await scene.refused(f"{PRODUCER}?producerName=me")
            assert (status, "already connected" in reason) == (409, True)
            await socket.say(message("x" * 1001))
            answer = await hearing
            assert (answer["result"], "maxMessageSize" in answer["errorMsg"]) == ("send-error:8", True)
            answer = await socket.ask(message(properties={str(number): "" for number in range(4000)}))
            assert (answer["result"], "elements" in answer["errorMsg"]) == ("send-error:8", True)
            answer = await socket.ask(message(properties={str(number): "" for number in range(5000)}))
            assert (answer["result"], "at most 4096" in answer["errorMsg"]) == ("send-error:7", True)
            assert place(await socket.ask(message("x" * 1000))).entryId == 0


@pytest.mark.parametrize(
    "query",
    [
        "hashingScheme=Nope",
        "compressionType=Nope",
        "messageRoutingMode=Nope",
        "sendTimeoutMillis=-1",
        "sendTimeoutMillis=x",
        "initialSequenceId=99999999999999999999",
        "batchingMaxPublishDelay=0",
        "maxPendingMessages=-5",
        "encryptionKeys=key1,key2",
        "encryptionKeys=e30%3D",
        "encryptionKeys=eyJhIjp7fX0%3D",
    ],
)
async def test_a_query_that_makes_no_sense_is_refused_and_named(tmp_path: Path, query: str) -> None:
    async with sockets(tmp_path) as scene:
        status, reason = await scene.refused(f"{PRODUCER}?{query}")
        assert (status, query.partition("=")[0] in reason) == (400, True)


async def test_more_messages_than_may_be_pending_are_refused(tmp_path: Path) -> None:
    query = "maxPendingMessages=2&batchingEnabled=true&batchingMaxPublishDelay=500&batchingMaxMessages=100"
    async with sockets(tmp_path) as scene, scene.open(f"{PRODUCER}?{query}") as socket:
        for _ in range(3):
            await socket.say(message())
        answers = [await socket.heard() for _ in range(3)]
        assert [answer["result"] for answer in answers] == ["ok", "ok", "send-error:8"]
        assert answers[2]["errorMsg"] == "Producer send queue is full"


async def test_a_client_that_encrypts_says_how(tmp_path: Path) -> None:
    keys = {"k1": {"keyValue": b64encode(b"\x01\x02").decode(), "metadata": {"m": "v"}}}
    query = "batchingEnabled=true&compressionType=LZ4&encryptionKeys=" + b64encode(json.dumps(keys).encode()).decode()
    async with sockets(tmp_path) as scene, scene.open(f"{PRODUCER}?{query}") as socket:
        told = {"encryptionParam": "AwQ=", "compressionType": "ZSTD", "uncompressedMessageSize": 77}
        assert place(await socket.ask(message("secret", **told))).batch_size == 0
        half = await socket.ask(message("secret", compressionType="ZSTD"))
        assert (half["result"], "both" in half["errorMsg"]) == ("send-error:7", True)
        ((_, metadata, body),) = await stored(scene, NAME, 1)
        assert body == b"secret"
        assert (metadata.encryption_param, metadata.compression, metadata.uncompressed_size) == (
            b"\x03\x04",
            pb.ZSTD,
            77,
        )
        (key,) = metadata.encryption_keys
        assert (key.key, key.value, key.metadata[0].key, key.metadata[0].value) == ("k1", b"\x01\x02", "m", "v")


async def test_a_topic_that_is_not_persistent_takes_messages_too(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene, scene.open("producer/non-persistent/public/default/np") as socket:
        assert (await socket.ask(message()))["result"] == "ok"


async def test_everything_that_is_sent_without_waiting_is_stored_and_answered(tmp_path: Path) -> None:
    """Ten times as many messages as may wait to be stored: the socket is read as fast as they are stored."""
    async with (
        sockets(tmp_path, maxPendingPublishRequestsPerConnection="100", maxMessagePublishBufferSizeInMB="1") as scene,
        scene.open(PRODUCER) as one,
        scene.open(PRODUCER) as other,
    ):
        big = "x" * 20_000

        async def send(socket: Socket) -> None:
            for number in range(1_000):
                await socket.say(message(big, context=str(number)))

        async def hear(socket: Socket) -> list[str]:
            return [(await socket.heard())["context"] for _ in range(1_000)]

        *_, first, second = await asyncio.gather(send(one), send(other), hear(one), hear(other))
        assert first == second == [str(number) for number in range(1_000)]
        stats = await scene.web.json("/admin/v2/persistent/public/default/ws/stats")
        assert stats["msgInCounter"] == 2_000


async def test_new_partitions_are_produced_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_session, "PARTITIONS_SECONDS", 0.0)
    async with sockets(tmp_path) as scene:
        await admin(scene, "PUT", "ws/partitions", "1")
        async with scene.open(f"{PRODUCER}?messageRoutingMode=RoundRobinPartition") as socket:
            assert place(await socket.ask(message())).partition == 0
            await admin(scene, "POST", "ws/partitions", "3")
            seen: set[int] = set()
            async with asyncio.timeout(20):
                while len(seen) < 3:
                    seen.add(place(await socket.ask(message())).partition)
