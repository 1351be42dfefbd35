"""The short rows of numbers of a namespace's loaded topics."""

from pathlib import Path
from typing import Any

from magnetar.server.admin.topic_table_calls import COLUMNS
from tests.server.web.cluster_scene import NAMESPACE, cluster
from tests.server.web.web_scene import TOPIC, Web, running

TABLE = "/admin/v2/namespaces/public/default/topicTable"
RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")


async def rows(web: Web, path: str = TABLE) -> dict[str, dict[str, Any]]:
    """Returns the rows by their topics, each by its columns."""
    answer = await web.json(path)
    assert answer["columns"] == list(COLUMNS)
    return {cells[0]: dict(zip(answer["columns"], cells, strict=True)) for cells in answer["topics"]}


async def test_a_row_has_the_numbers_that_the_stats_have(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        path = TOPIC.replace("://", "/")
        for name in ("a", "b"):
            assert (await web.call("PUT", f"/admin/v2/{path}/subscription/{name}"))[0] == 204
        client = await web.publish(7)
        assert (await web.call("POST", f"/admin/v2/{path}/subscription/b/skip/5"))[0] == 204
        stats = await web.json(f"/admin/v2/{path}/stats")
        row = (await rows(web))[TOPIC]
        assert row["backlog"] == stats["subscriptions"]["a"]["msgBacklog"] == 7
        assert row["storageSize"] == stats["storageSize"] > 0
        assert row["backlogSize"] == stats["backlogSize"]
        assert (row["producers"], row["subscriptions"], row["consumers"]) == (1, 2, 0)
        client.writer.close()


async def test_topics_of_both_domains_and_of_no_other_namespace_have_rows(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert (await web.call("PUT", "/admin/v2/namespaces/public/other"))[0] == 204
        for topic in ("persistent/public/default/p", "non-persistent/public/default/n", "persistent/public/other/o"):
            assert (await web.call("PUT", f"/admin/v2/{topic}"))[0] == 204
            assert (await web.get(f"/admin/v2/{topic}/stats"))[0] == 200
        found = await rows(web)
        assert set(found) == {"persistent://public/default/p", "non-persistent://public/default/n"}
        assert found["non-persistent://public/default/n"]["backlog"] == 0


async def test_a_namespace_or_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        status, _, body = await web.get("/admin/v2/namespaces/public/nothing/topicTable")
        assert (status, body) == (404, '{"reason":"Namespace does not exist"}')
        status, _, body = await web.get("/admin/v2/namespaces/public/default/0x00_0x01/topicTable")
        assert status == 412, body


async def test_the_owners_of_a_cluster_make_the_rows_of_their_bundles(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (first, second):
        await first.own(*RANGES[:2])
        await second.own(*RANGES[2:])
        path = f"/admin/v2/persistent/{NAMESPACE}/parts"
        assert (await first.call("PUT", f"{path}/partitions", "6")).status == 204
        assert (await first.call("GET", f"{path}/partitioned-stats")).status == 200  # loads all partitions
        for seat in (first, second):
            answer = (await seat.call("GET", f"/admin/v2/namespaces/{NAMESPACE}/topicTable")).json
            names = sorted(cells[0] for cells in answer["topics"])
            assert names == [f"persistent://{NAMESPACE}/parts-partition-{number}" for number in range(6)]
