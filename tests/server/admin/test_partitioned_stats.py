"""The statistics of a partitioned topic: which are sums over its partitions, and which are not."""

import time
from pathlib import Path
from typing import Any

from magnetar.server.admin.topic_stats_calls import total_of
from tests.server.web.web_scene import running

TOPIC = "persistent://public/default/pt"
PATH = "/admin/v2/" + TOPIC.replace("://", "/")


def partition(rate: float, throughput: float, acked_ms: int, oldest_ms: int) -> dict[str, Any]:
    average = throughput / rate if rate else 0.0
    subscription = {"msgBacklog": 2, "lastAckedTimestamp": acked_ms, "earliestMsgPublishTimeInBacklog": oldest_ms}
    traffic = {"msgRateIn": rate, "msgThroughputIn": throughput, "averageMsgSize": average}
    return {**traffic, "subscriptions": {"s": subscription}, "ownerBroker": "b"}


async def test_times_are_no_sums_and_the_average_size_is_that_of_all_messages() -> None:
    total = await total_of([partition(1.0, 10.0, 700, 0), partition(3.0, 90.0, 900, 400), partition(0.0, 0.0, 0, 300)])
    assert total == {
        "msgRateIn": 4.0,
        "msgThroughputIn": 100.0,
        "averageMsgSize": 25.0,
        "subscriptions": {
            "s": {"msgBacklog": 6, "lastAckedTimestamp": 900, "earliestMsgPublishTimeInBacklog": 300},
        },
    }


async def test_a_partitioned_topic_was_made_when_its_first_partition_was(tmp_path: Path) -> None:
    before_ms = time.time_ns() // 1_000_000
    async with running(tmp_path) as web:
        async with web.session.put(f"{web.server.web_url}{PATH}/partitions", json=3) as answer:
            assert answer.status == 204
        stats = await web.json(f"{PATH}/partitioned-stats")
        each = [one["topicCreationTimeStamp"] for one in stats["partitions"].values()]
        assert before_ms <= stats["topicCreationTimeStamp"] == min(each)
