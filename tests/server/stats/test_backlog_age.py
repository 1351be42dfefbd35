"""How old a backlog is, as stats say when `getEarliestTimeInBacklog` asks for it."""

from pathlib import Path
from typing import Any

from magnetar.server.stats.domain_stats import add_earliest_times, topic_stats
from magnetar.server.topics.counters import now_ms
from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, Scene, ack, payload
from tests.server.web.web_scene import TOPIC, running


async def scene_with_two_backlogs(**settings: Any) -> Scene:
    scene = Scene(**settings)
    consumer = await scene.consumer(FakeConnection(), "Shared", subscription="behind")
    other = await scene.consumer(FakeConnection(), "Shared", subscription="done")
    scene.ledger.append_now([payload(b"x", publish_time=now_ms() - 1000 * age) for age in (90, 60, 30)])
    consumer.flow(10)
    other.flow(10)
    ack(consumer, [Position(10, 0)])
    ack(other, [Position(10, 0), Position(10, 1), Position(10, 2)])
    return scene


async def earliest(scene: Scene) -> tuple[int, dict[str, int]]:
    stats: Any = topic_stats(scene.topic)
    await add_earliest_times(scene.topic, stats)
    field = "earliestMsgPublishTimeInBacklog"
    return stats[f"{field}s"], {name: each[field] for name, each in stats["subscriptions"].items()}


async def test_the_earliest_time_is_that_of_the_first_message_that_is_not_acknowledged() -> None:
    scene = await scene_with_two_backlogs()
    oldest, each = await earliest(scene)
    assert 60 <= (now_ms() - oldest) / 1000 < 90
    assert each == {"behind": oldest, "done": -1}


async def test_a_message_is_read_once_for_its_time() -> None:
    scene = await scene_with_two_backlogs()
    await earliest(scene)
    reads = len(scene.ledger.reads)
    await earliest(scene)
    assert len(scene.ledger.reads) == reads


async def test_the_call_fills_the_times_only_when_it_is_asked_to(tmp_path: Path) -> None:
    path = "/admin/v2/" + TOPIC.replace("://", "/")
    async with running(tmp_path) as web:
        client = await web.publish(2)
        await web.call("PUT", f"{path}/subscription/s", '"earliest"')
        without = await web.json(f"{path}/stats")
        asked = await web.json(f"{path}/stats?getEarliestTimeInBacklog=true")
        client.writer.close()
    field = "earliestMsgPublishTimeInBacklog"
    assert without["subscriptions"]["s"][field] == 0
    assert asked["subscriptions"]["s"][field] == asked[f"{field}s"] == 1, "the publish time of the scene's messages"
