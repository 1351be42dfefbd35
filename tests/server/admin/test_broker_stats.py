"""The calls about a broker as a whole, which tools such as pulsarctl make."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.web.web_scene import TOPIC, Web, running
from tests.server.wire_client import Client

FLEETING = TOPIC.replace("persistent", "non-persistent")


@asynccontextmanager
async def clients_of(web: Web) -> AsyncIterator[None]:
    """Clients that have published five messages, with a consumer and with a producer on a non-persistent topic."""
    producer = await web.publish(5)
    other = await Client.connect(int(web.server.broker_url.rpartition(":")[2]))
    other.say(
        command(
            "SUBSCRIBE", "subscribe", topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Shared,
            consumer_id=1, request_id=1, initialPosition=pb.CommandSubscribe.Earliest,
        )
    )  # fmt: skip
    await other.answer()
    other.say(command("PRODUCER", "producer", topic=FLEETING, producer_id=2, request_id=2, producer_name="q"))
    await other.answer()
    yield
    for client in (producer, other):
        client.writer.close()


def by_name(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the topics of all bundles of public/default by their names."""
    return {
        name: stats
        for bundle in answer["public/default"].values()
        for domain in bundle.values()
        for name, stats in domain.items()
    }


async def test_loaded_topics_are_told_by_bundle(tmp_path: Path) -> None:
    async with running(tmp_path) as web, clients_of(web):
        answer = await web.json("/admin/v2/broker-stats/topics")
        bundles = (await web.json("/admin/v2/namespaces/public/default/bundles"))["boundaries"]
        assert {edge for bundle in answer["public/default"] for edge in bundle.split("_")} <= set(bundles)
        assert all("persistent" in domains for domains in answer["public/default"].values())
        topics = by_name(answer)
        assert set(topics) == {TOPIC, FLEETING}
        stored = topics[TOPIC]
        assert (stored["msgInCount"], stored["producerCount"], stored["storageSize"] > 0) == (5, 1, True)
        assert stored["publishers"][0]["producerName"] == "p"
        subscription = stored["subscriptions"]["s"]
        assert (subscription["type"], subscription["msgBacklog"]) == ("Shared", 5)
        assert subscription["consumers"][0]["address"].startswith("/127.0.0.1:")
        assert topics[FLEETING]["producerCount"] == 1
        owned = await web.json(f"/admin/v2/brokers/standalone/{web.server.web_url[7:]}/ownedNamespaces")
        assert set(owned) == {f"public/default/{bundle}" for bundle in answer["public/default"]}


async def test_the_load_report_sums_up_the_bundles(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert (await web.json("/admin/v2/broker-stats/load-report"))["numTopics"] == 0
        async with clients_of(web):
            report = await web.json("/admin/v2/broker-stats/load-report")
        assert report["webServiceUrl"] == web.server.web_url
        assert report["pulsarServiceUrl"] == web.server.broker_url
        assert "webServiceUrlTls" not in report
        assert (report["numTopics"], report["numProducers"], report["numConsumers"]) == (2, 2, 1)
        assert report["numBundles"] == len(report["lastStats"]) == len(report["bundles"])
        assert 0 < report["memory"]["usage"] < report["memory"]["limit"]
        assert report["cpu"]["usage"] <= report["cpu"]["limit"]


async def test_figures_of_namespaces_and_connections(tmp_path: Path) -> None:
    async with running(tmp_path) as web, clients_of(web):
        answer = await web.json("/admin/v2/broker-stats/metrics")
        found = {json.dumps(each["dimensions"]): each["metrics"] for each in answer}
        namespace = found['{"namespace": "public/default"}']
        assert (namespace["brk_no_of_producers"], namespace["brk_msg_backlog"]) == (2, 5)
        connections = next(each for each in found.values() if "brk_active_connections" in each)
        assert connections["brk_active_connections"] == 2
