"""A reader's WebSocket gets the messages after the one that its URL names."""

from pathlib import Path

import pytest

from tests.server.websocket.receiving_scene import TOPIC, as_id, receiving

READER = f"v2/reader/{TOPIC}"


async def test_a_reader_begins_after_the_message_that_it_names(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a", b"b"])
        await scene.publish_batch([b"c", b"d"])
        async with scene.open(f"{READER}?messageId=earliest") as socket:
            messages = [await socket.heard() for _ in range(4)]
        assert [each["payload"] for each in messages] == ["YQ==", "Yg==", "Yw==", "ZA=="]
        for index, left in enumerate(([b"b", b"c", b"d"], [b"c", b"d"], [b"d"])):
            async with scene.open(f"{READER}?messageId={messages[index]['messageId']}") as socket:
                assert await socket.values(len(left)) == left
                await socket.gets_nothing_now()


@pytest.mark.parametrize("query", ["", "?messageId=latest"])
async def test_a_reader_that_names_no_message_gets_new_ones(tmp_path: Path, query: str) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"old"])
        async with scene.open(READER + query) as socket:
            await socket.gets_nothing_now()
            await scene.publish([b"new"])
            assert await socket.values(1) == [b"new"]


async def test_a_readers_answers_ask_for_more(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish([b"a", b"b", b"c"])
        async with scene.open(f"{READER}?messageId=earliest&receiverQueueSize=1") as socket:
            first = await socket.heard()
            await socket.gets_nothing_now()
            await socket.ack(first)
            assert await socket.values(1) == [b"b"]
            await socket.gets_nothing_now()


async def test_a_reader_goes_on_where_it_was_when_its_topic_is_unloaded(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.publish_batch([b"a", b"b", b"c"])
        async with scene.open(f"{READER}?messageId=earliest&receiverQueueSize=2") as socket:
            first, _ = await socket.heard(), await socket.heard()
            await scene.call("PUT", f"/admin/v2/{TOPIC}/unload")
            await socket.ack(first)
            assert await socket.values(1, acks=True) == [b"c"]
            await scene.publish([b"d"])
            assert await socket.values(1) == [b"d"]


async def test_a_reader_of_partitions_begins_at_an_end_of_them(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        await scene.call("PUT", f"/admin/v2/{TOPIC}/partitions", "2")
        for index in range(2):
            await scene.publish([b"%d" % index], f"{TOPIC}-partition-{index}")
        async with scene.open(f"{READER}?messageId=earliest") as socket:
            assert sorted(await socket.values(2)) == [b"0", b"1"]
        assert (await scene.refused(f"{READER}?messageId={as_id(1, 0)}"))[0] == 400


async def test_a_reader_that_cannot_be_is_refused_as_an_http_answer(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene:
        assert (await scene.refused("v2/reader/persistent/public/nope/x"))[0] == 404
        for query in ("messageId=rubbish", "messageId=AAAA", "receiverQueueSize=x", "cryptoFailureAction=x"):
            status, reason = await scene.refused(f"{READER}?{query}")
            assert (status, query.partition("=")[0] in reason) == (400, True), (query, reason)


async def test_a_text_that_makes_no_sense_closes_the_readers_socket(tmp_path: Path) -> None:
    async with receiving(tmp_path) as scene, scene.open(READER) as socket:
        await socket.say("rubbish")
        assert (await socket.end())[0] == 1007
