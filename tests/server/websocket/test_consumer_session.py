"""A consumer's WebSocket gets messages, and what it answers is done."""

import asyncio
import random
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress
from tests.server.websocket.receiving_scene import TOPIC, receiving

CONSUMER = f"v2/consumer/{TOPIC}"
EARLIEST = "subscriptionInitialPosition=Earliest"
SHARED = f"{EARLIEST}&subscriptionType=Shared"


async def test_a_message_is_told_as_apache_tells_it(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        times: dict[str, Any] = {"publish_time": 1_795_354_149_376, "event_time": 1_795_341_600_000}
        await scene.publish([b"hello"], partition_key="k", properties={"a": "1"}, **times)
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}") as socket:
            message = await socket.heard()
        assert b64decode(message.pop("messageId"))[-2:] == b"\x30\x00"
        assert message == {
            "payload": "aGVsbG8=",
            "properties": {"a": "1"},
            "publishTime": "2026-11-22T13:29:09.376Z",
            "redeliveryCount": 0,
            "eventTime": "2026-11-22T10:00:00Z",
            "key": "k",
        }


async def test_no_more_messages_are_out_than_the_queue_holds(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"%d" % index for index in range(5)])
        async with scene.open(f"{CONSUMER}/sub?{SHARED}&receiverQueueSize=2&negativeAckRedeliveryDelay=0") as socket:
            first, second = await socket.heard(), await socket.heard()
            await socket.gets_nothing_now()
            await socket.ack(first)
            assert b64decode((await socket.heard())["payload"]) == b"2"
            await socket.ack(first)  # acknowledged before: this gives no further message
            await socket.gets_nothing_now()
            await socket.nack(second)
            again = {(await socket.heard())["payload"]}
            await socket.gets_nothing_now()
            assert again <= {"Mw==", "MQ=="}


async def test_what_was_not_acknowledged_comes_again_to_the_next_socket(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a", b"b", b"c"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}") as socket:
            messages = [await socket.heard() for _ in range(3)]
            await socket.ack(messages[0])
            await socket.ack(messages[2])
            await socket.gets_nothing_now()
        await scene.until(lambda stats: not stats["consumers"])
        async with scene.open(f"{CONSUMER}/sub") as socket:
            assert await socket.values(1) == [b"b"]
            await socket.gets_nothing_now()


@pytest.mark.parametrize("compression", [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
@pytest.mark.parametrize("size", [10, 40_000])
async def test_batches_are_unpacked(tmp_path: Path, compression: pb.CompressionType.ValueType, size: int) -> None:
    async with receiving(tmp_path) as scene:
        values = [b"%d" % index * size for index in range(5)]
        await scene.publish_batch(values, compression=compression)
        await scene.publish([b"single"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}&receiverQueueSize=2") as socket:
            assert await socket.values(6, acks=True) == [*values, b"single"]
            await scene.until_backlog(0)


async def test_a_batch_is_acknowledged_with_its_last_message_and_not_before(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish_batch([b"a", b"b", b"c"])
        async with scene.open(f"{CONSUMER}/sub?{SHARED}&negativeAckRedeliveryDelay=0") as socket:
            a, b, c = [await socket.heard() for _ in range(3)]
            await socket.ack(a)
            await socket.ack(c)
            await socket.gets_nothing_now()
            await scene.until_backlog(1)
            await socket.nack(b)
            again = await socket.heard()  # a and c are not delivered again
            assert (again["messageId"], again["redeliveryCount"]) == (b["messageId"], 1)
            await socket.ack(again)
            await scene.until_backlog(0)


@pytest.mark.parametrize("size", [261_119, 261_120, 261_121, 5_000_000])
async def test_a_large_message_arrives_whole(tmp_path: Path, size: int) -> None:
    async with receiving(tmp_path) as scene:
        value = random.Random(size).randbytes(size)
        await scene.publish([value])
        await scene.publish_batch([value[: size // 2], b"small", value[size // 2 :]], compression=pb.LZ4)
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}") as socket:
            assert await socket.values(4, acks=True) == [value, value[: size // 2], b"small", value[size // 2 :]]
            await scene.until_backlog(0)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
async def test_a_message_in_chunks_is_put_together(tmp_path: Path, kind: str) -> None:
    async with receiving(tmp_path) as scene:
        packed = compress(pb.ZSTD, bytes(range(256)) * 10)
        cut = len(packed) // 3
        parts = [packed[:cut], packed[cut : 2 * cut], packed[2 * cut :]]
        about: dict[str, Any] = {
            "uuid": "u",
            "num_chunks_from_msg": 3,
            "compression": pb.ZSTD,
            "uncompressed_size": 2560,
        }
        for chunk_id, part in enumerate(parts):
            await scene.publish([part], chunk_id=chunk_id, total_chunk_msg_size=len(packed), **about)
        query = f"{EARLIEST}&subscriptionType={kind}&negativeAckRedeliveryDelay=0&receiverQueueSize=1"
        async with scene.open(f"{CONSUMER}/sub?{query}") as socket:
            for _ in range(3):
                message = await socket.heard()
                assert b64decode(message["payload"]) == bytes(range(256)) * 10
                await socket.nack(message)
            await socket.ack(await socket.heard())
            await scene.until_backlog(0)


async def test_pull_mode_sends_as_many_messages_as_there_are_permits(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"%d" % index for index in range(7)])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}&pullMode=true") as socket:
            await socket.gets_nothing_now()
            await socket.say({"type": "permit", "permitMessages": 1})
            await socket.say({"type": "permit", "permitMessages": 2})
            first = await socket.heard()
            assert await socket.values(2) == [b"1", b"2"]
            await socket.ack(first)  # acknowledgements do not count
            await socket.gets_nothing_now()
            await socket.say({"type": "permit", "permitMessages": "100"})
            assert await socket.values(4) == [b"3", b"4", b"5", b"6"]


async def test_a_consumer_that_keeps_an_order_gets_everything_again(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a", b"b", b"c"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}&receiverQueueSize=3&negativeAckRedeliveryDelay=0") as socket:
            a, b, _ = [await socket.heard() for _ in range(3)]
            await socket.ack(a)
            await socket.nack(b)
            assert await socket.values(2, acks=True) == [b"b", b"c"]
            await scene.publish([b"d", b"e", b"f", b"g"])
            assert await socket.values(3) == [b"d", b"e", b"f"]
            await socket.gets_nothing_now()


async def test_messages_come_again_after_the_ack_timeout(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a"])
        async with scene.open(f"{CONSUMER}/sub?{SHARED}&ackTimeoutMillis=1000&receiverQueueSize=1") as socket:
            assert [(await socket.heard())["redeliveryCount"] for _ in range(2)] == [0, 1]


async def test_unsubscribing_deletes_the_subscription(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        async with scene.open(f"{CONSUMER}/sub") as socket:
            await socket.gets_nothing_now()
            await socket.say({"type": "unsubscribe"})
            await scene.until(lambda stats: stats is None)
        async with scene.open(f"{CONSUMER}/two?{SHARED}") as socket, scene.open(f"{CONSUMER}/two?{SHARED}"):
            await socket.say({"type": "unsubscribe"})
            code, reason = await socket.end()
            assert (code, reason[:23]) == (1011, "Failed to unsubscribe: ")


async def test_the_end_of_a_topic_is_told(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"last"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}") as socket:
            message = await socket.heard()
            await scene.call("POST", f"/admin/v2/{TOPIC}/terminate")
            await socket.gets_nothing_now()
            await socket.ack(message)
            while await socket.ask({"type": "isEndOfTopic"}) == {"endOfTopic": False}:
                pass


async def test_a_topic_that_is_unloaded_is_subscribed_again(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a", b"b"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}&receiverQueueSize=2") as socket:
            a, _ = await socket.heard(), await socket.heard()
            await socket.ack(a)
            await socket.gets_nothing_now()
            await scene.call("PUT", f"/admin/v2/{TOPIC}/unload")
            assert await socket.values(1) == [b"b"]
            await scene.publish([b"c"])
            assert await socket.values(1) == [b"c"]


async def test_a_message_that_comes_too_often_goes_to_the_dead_letter_topic(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"bad", b"good"], partition_key="k", properties={"p": "1"})
        query = f"{SHARED}&maxRedeliverCount=2&negativeAckRedeliveryDelay=0"
        async with scene.open(f"{CONSUMER}/sub?{query}") as socket:
            times = 0
            while times < 3:
                message = await socket.heard()
                if message["payload"] == "Z29vZA==":
                    await socket.ack(message)
                    continue
                assert message["redeliveryCount"] == times
                times += 1
                await socket.nack(message)
            await scene.until_backlog(0)
            async with scene.open(f"v2/reader/{TOPIC}-sub-DLQ?messageId=earliest") as reader:
                letter = await reader.heard()
            assert (letter["payload"], letter["key"]) == ("YmFk", "k")
            assert letter["properties"].keys() == {"p", "REAL_TOPIC", "ORIGIN_MESSAGE_ID"}


async def test_partitions_are_consumed_over_one_socket(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.call("PUT", f"/admin/v2/{TOPIC}/partitions", "3")
        for index in range(3):
            await scene.publish([b"%d" % index], f"{TOPIC}-partition-{index}")
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}&receiverQueueSize=1") as socket:
            assert sorted(await socket.values(3, acks=True)) == [b"0", b"1", b"2"]
            for index in range(3):
                await scene.until_backlog(0, f"{TOPIC}-partition-{index}")


async def test_topics_of_a_list_are_consumed_over_one_socket(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        names = ["persistent/public/default/one", "persistent/public/default/two"]
        for name in names:
            await scene.publish([name[-3:].encode()], name)
        listed = ",".join(name.replace("/", "://", 1) for name in names)
        async with scene.open(f"v3/consumer/sub?topics={listed}&{EARLIEST}") as socket:
            assert sorted(await socket.values(2, acks=True)) == [b"one", b"two"]
            for name in names:
                await scene.until_backlog(0, name)


async def test_topics_that_match_a_pattern_are_consumed_also_when_they_come_later(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"early"], "persistent/public/default/logs-1")
        await scene.publish([b"other"], "persistent/public/default/other")
        async with scene.open(f"v3/consumer/sub?topicsPattern=public/default/logs-.*&{EARLIEST}") as socket:
            assert await socket.values(1) == [b"early"]
            await scene.publish([b"late"], "persistent/public/default/logs-2")
            assert await socket.values(1) == [b"late"]


async def test_messages_of_a_non_persistent_topic_come_while_they_are_taken(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        topic = "non-persistent/public/default/np"
        async with scene.open(f"v2/consumer/{topic}/sub?receiverQueueSize=2") as socket:
            await socket.gets_nothing_now()
            for index in range(6):
                await scene.publish([b"%d" % index], topic)
                assert await socket.values(1, acks=True) == [b"%d" % index]


@pytest.mark.parametrize(
    ("action", "heard"),
    [("FAIL", [b"plain"]), ("DISCARD", [b"plain"]), ("CONSUME", [b"secret", b"plain"])],
)
async def test_encrypted_messages_are_treated_as_the_query_says(
    tmp_path: Path, action: str, heard: list[bytes]
) -> None:
    async with receiving(tmp_path) as scene:
        keys = [pb.EncryptionKeys(key="k", value=b"wrapped")]
        await scene.publish([b"secret"], encryption_keys=keys, encryption_algo="RSA", encryption_param=b"iv")
        await scene.publish([b"plain"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}&cryptoFailureAction={action}") as socket:
            messages = [await socket.heard() for _ in heard]
            assert [b64decode(each["payload"]) for each in messages] == heard
            if action == "CONSUME":
                context = messages[0]["encryptionContext"]
                assert context["keys"] == {"k": {"keyValue": "d3JhcHBlZA==", "metadata": {}}}
                assert (context["param"], context["algorithm"]) == ("aXY=", "RSA")
            for each in messages:
                await socket.ack(each)
            left = 1 if action == "FAIL" else 0
            await scene.until_backlog(left)


async def test_an_entry_that_nobody_can_read_is_passed(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"no lz4"], compression=pb.LZ4, uncompressed_size=100)
        await scene.publish([b"bomb"], compression=pb.ZSTD, uncompressed_size=2**31 - 1)
        await scene.publish([b"no batch"], num_messages_in_batch=3)
        await scene.publish([b"sound"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}") as socket:
            assert await socket.values(1, acks=True) == [b"sound"]
            await scene.until_backlog(0)


async def test_a_consumer_that_cannot_be_is_refused_as_an_http_answer(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        async with scene.open(f"{CONSUMER}/sub") as socket:
            listening = asyncio.create_task(socket.end())  # it answers the ping that asks whether it lives
            status, reason = await scene.refused(f"{CONSUMER}/sub")
            assert (status, "Exclusive consumer is already connected" in reason) == (409, True)
            listening.cancel()
        assert (await scene.refused("v2/consumer/persistent/public/nope/x/sub"))[0] == 404
        status, reason = await scene.refused(f"{CONSUMER}/sub?subscriptionType=Nope")
        assert (status, reason[:55]) == (400, "Invalid query params: Invalid subscriptionType Nope: ex")
        for query in (
            "subscriptionMode=x",
            "subscriptionInitialPosition=x",
            "receiverQueueSize=-1",
            "receiverQueueSize=x",
            "ackTimeoutMillis=999",
            "priorityLevel=-1",
            "negativeAckRedeliveryDelay=-1",
            "maxRedeliverCount=0",
            "deadLetterTopic=a%2Fb",
            "cryptoFailureAction=x",
            "consumerName=",
        ):
            status, reason = await scene.refused(f"{CONSUMER}/sub?{query}")
            assert (status, query.partition("=")[0] in reason) == (400, True), (query, reason)
        assert (await scene.refused("v3/consumer/sub?topicsPattern=public/default/("))[0] == 400
        assert (await scene.refused("v3/consumer/sub?topicsPattern=a/b"))[0] == 400


@pytest.mark.parametrize(
    "text",
    [
        "rubbish",
        "[]",
        "{}",
        '{"type":"permit"}',
        '{"type":"permit","permitMessages":-1}',
        '{"messageId":"***"}',
        '{"messageId":{}}',
        '{"messageId":"////"}',
        '{"type":"negativeAcknowledge"}',
        "[" * 100_000,
    ],
)
async def test_a_text_that_makes_no_sense_closes_its_socket_with_the_reason(tmp_path: Path, text: str) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a"])
        async with scene.open(f"{CONSUMER}/sub?{EARLIEST}") as socket:
            await socket.say(text)
            code, reason = await socket.end()
            assert (code, reason[:30]) == (1007, "Failed to de-serialize from JS")
        await scene.until(lambda stats: not stats["consumers"])


async def test_a_socket_that_does_not_read_holds_up_only_itself(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([bytes(200_000)] * 100)
        async with scene.open(f"{CONSUMER}/slow?{EARLIEST}") as slow:
            await scene.until(lambda stats: stats["msgOutCounter"] > 5, "slow")
            async with scene.open(f"{CONSUMER}/quick?{EARLIEST}") as quick:
                assert len(await quick.values(100, acks=True)) == 100
            assert (await scene.subscription("slow"))["msgOutCounter"] < 90
            assert len(await slow.values(100)) == 100
