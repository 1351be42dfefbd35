"""What keeps each ledger of a topic: each keeper provoked on real ledgers; and the call and the command for that."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulsar
import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.commands.main import main
from magnetar.server.compaction.topic_compaction import COMPACTION_CURSOR
from magnetar.server.topics.publishing.deduplication import DEDUP_CURSOR
from magnetar.server.topics.topic import Topic
from magnetar.server.why.ledger_answers import fragments, topic_ledgers
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState
from tests.server.served import serving
from tests.server.topics.storage_scene import SMALL_LEDGERS, numbers, process
from tests.server.web.web_scene import running
from tests.waiting import until

FOREVER = replace(SMALL_LEDGERS, retention_time_minutes=-1, retention_size_mb=-1)


@asynccontextmanager
async def three_ledgers(folder: Path) -> AsyncIterator[Topic]:
    """A topic with two full ledgers and an open one, of which retention keeps everything."""
    async with process(folder, MemoryStore(), FOREVER) as broker:
        topic = await broker.topic()
        topic.ledger.configure(FOREVER)
        for first in (0, 50, 100):
            await append(topic, numbers(first, first + (50 if first < 100 else 10)))
        yield topic


async def append(topic: Topic, payloads: list[bytes]) -> None:
    done: list[AddResult] = []
    topic.ledger.add_entries(payloads, done.append)
    await until(lambda: done)
    assert done[0].error is None


async def told(topic: Topic) -> list[list[dict[str, Any]]]:
    """Returns what keeps each ledger."""
    answer: Any = await topic_ledgers(topic, "b:1", [])
    return [each["keptBy"] for each in answer["ledgers"]]


async def kept_by(topic: Topic) -> list[list[str]]:
    return [[each["by"] for each in keepers] for keepers in await told(topic)]


async def test_the_current_ledger_and_retention_without_an_end(tmp_path: Path) -> None:
    async with three_ledgers(tmp_path) as topic:
        assert await kept_by(topic) == [["retention"], ["retention"], ["current"]]
        first = (await told(topic))[0][0]
        assert first["sentence"].startswith("Retention keeps it for ever")
        answer: Any = await topic_ledgers(topic, "b:1", [7])
    assert [(each["entries"], each["isOpen"]) for each in answer["ledgers"]] == [(50, False), (50, False), (10, True)]
    assert (answer["entries"], answer["waitingForDeletion"]) == (110, [7])


async def test_retention_tells_when_time_and_size_end_it(tmp_path: Path) -> None:
    async with three_ledgers(tmp_path) as topic:
        topic.ledger.configure(replace(FOREVER, retention_time_minutes=10, retention_size_mb=1))
        keeper = (await told(topic))[0][0]
        assert keeper["untilMs"] == 1_000 + 600_000, "ten minutes after the scene's clock"
        assert 0 < keeper["bytesMissing"] < 1 << 20
        assert "that ends at 1970-01-01 00:10:01 UTC" in keeper["sentence"]
        assert f"or when {keeper['bytesMissing']} more bytes follow" in keeper["sentence"]


async def test_a_subscription_that_has_not_passed_a_ledger_is_named_with_its_position(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with three_ledgers(tmp_path) as topic:
        slow = await topic.create_subscription("slow", EARLIEST)
        await topic.create_subscription("fast", EARLIEST)
        first, second, last = (info.ledger_id for info in topic.ledger.stats().ledgers)
        slow.cursor.ack_cumulative(first, 19)
        topic.subscriptions["fast"].cursor.ack_cumulative(second, 4)
        topic.ledger.configure(SMALL_LEDGERS)
        assert await kept_by(topic) == [["cursor"], ["cursor", "cursor"], ["current", "cursor", "cursor"]]
        (keeper,) = (await told(topic))[0]
        assert (keeper["cursor"], keeper["position"], keeper["entriesNotPassed"]) == ("slow", f"{first}:19", 30)
        assert keeper["sentence"] == f"Subscription slow stands at {first}:19 and has not passed 30 entries of it."
        slow.cursor.ack_cumulative(first, 49)
        with caplog.at_level("INFO", "magnetar.storage.managed.ledger_reaper"):
            await topic.ledger.maintain()
            await until(lambda: caplog.messages)
        assert [info.ledger_id for info in topic.ledger.stats().ledgers] == [second, last], "the first one has gone"
        assert caplog.messages == [f"ledger {first} of public/default/persistent/t deleted"]


async def test_the_cursors_of_deduplication_and_compaction_are_told_as_what_they_are(tmp_path: Path) -> None:
    async with three_ledgers(tmp_path) as topic:
        await topic.ledger.open_cursor(DEDUP_CURSOR, EARLIEST)
        assert topic.compaction is not None
        await topic.compaction.hold_messages()
        topic.ledger.configure(SMALL_LEDGERS)
        sentences = [each["sentence"] for each in (await told(topic))[0]]
        assert [each["cursor"] for each in (await told(topic))[0]] == [DEDUP_CURSOR, COMPACTION_CURSOR]
        assert sentences[0].startswith("The snapshot of deduplication (cursor pulsar.dedup) stands at ")
        assert sentences[1].startswith("Compaction (cursor __compaction) stands at ")


async def test_the_last_ledger_stays_for_readers_who_themselves_keep_nothing(tmp_path: Path) -> None:
    async with three_ledgers(tmp_path) as topic:
        reader = topic.ledger.new_non_durable_cursor(EARLIEST)
        topic._add_subscription("reader-1", reader)
        await topic.ledger.roll()
        topic.ledger.configure(SMALL_LEDGERS)
        assert await kept_by(topic) == [[], [], ["last"]]
        answer: Any = await topic_ledgers(topic, "b:1", [])
        assert [each["subscription"] for each in answer["readers"]] == ["reader-1"]


async def test_the_end_of_a_terminated_topic_and_a_ledger_that_only_waits_for_an_earlier_one(tmp_path: Path) -> None:
    async with three_ledgers(tmp_path) as topic:
        subscription = await topic.create_subscription("s", EARLIEST)
        first = topic.ledger.stats().ledgers[0].ledger_id
        topic.ledger.hold("somebody", Position(first, 3))
        subscription.cursor.ack_cumulative(*topic.ledger.last_confirmed)
        await topic.terminate()
        topic.ledger.configure(SMALL_LEDGERS)
        assert (await kept_by(topic))[0] == ["cursor"]
        assert "end" in (await kept_by(topic))[2]


def test_the_fragments_of_a_ledger_end_where_the_next_ones_begin() -> None:
    metadata = LedgerMetadata(
        ledger_id=7,
        ensemble_size=2,
        write_quorum=2,
        ack_quorum=1,
        state=LedgerState.OPEN,
        ensembles=((0, ("b1", "b2")), (40, ("b1", "b3"))),
    )
    found: Any = fragments(metadata, 100)["fragments"]
    assert [(each["firstEntry"], each["lastEntry"], each["entries"]) for each in found] == [(0, 39, 40), (40, 99, 60)]
    assert found[1]["bookies"] == ["b1", "b3"]
    empty: Any = fragments(metadata, 40)["fragments"]
    assert empty[1]["entries"] == 0


async def test_the_call_tells_fragments_and_answers_for_partitions(tmp_path: Path) -> None:
    path = "/admin/v2/persistent/public/default"
    async with running(tmp_path) as web:
        client = await web.publish(3)
        answer = await web.json(f"{path}/t1/ledgers")
        (ledger,) = answer["ledgers"]
        assert (ledger["entries"], ledger["state"], ledger["isOpen"]) == (3, "OPEN", True)
        (fragment,) = ledger["fragments"]
        assert (fragment["firstEntry"], fragment["lastEntry"]) == (0, 2)
        assert fragment["bookies"] == ["127.0.0.1:3181"]
        await web.call("PUT", f"{path}/parts/partitions", "2")
        await web.call("PUT", f"{path}/parts/subscription/s", '"earliest"')
        parts = await web.json(f"{path}/parts/ledgers")
        assert [each["ledgers"] for each in parts["partitions"].values()] == [[], []]
        assert (await web.get(f"{path}/nope/ledgers"))[0] == 404
        status, _, body = await web.get("/admin/v2/non-persistent/public/default/t1/ledgers")
        assert (status, json.loads(body)["reason"]) == (405, "A non-persistent topic has no ledgers")
        client.writer.close()


def test_the_command_prints_each_ledger_with_its_bookies_and_keepers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as served:
        client = pulsar.Client(f"pulsar://127.0.0.1:{served.port}")
        client.subscribe("orders", "billing").close()
        client.create_producer("orders").send(b"x")
        assert main(["ledgers", "orders", "--admin-url", served.web_url]) == 0
        printed = capsys.readouterr().out
        assert main(["ledgers", "nope", "--admin-url", served.web_url]) == 3
        client.close()
    lines = printed.splitlines()
    assert lines[0].startswith("persistent://public/default/orders at broker ")
    assert ": 1 entry, " in lines[0]
    assert "entry 0: 127.0.0.1:3181 (write 1, ack 1)" in printed
    assert "kept: Messages are written to it; it may go some time after the next ledger has begun. [current]" in printed
    assert "kept: Subscription billing stands at " in printed
    assert capsys.readouterr().err == "magnetar ledgers: Topic persistent://public/default/nope not found\n"
