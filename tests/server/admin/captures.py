"""Makes the calls that were captured at Apache's REST port, in their order, and does between them what clients did."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pulsar

from tests.server.admin.replay import Replay

VECTORS = Path(__file__).parents[2] / "vectors" / "rest_exchanges.json"
SETTINGS = {"backlogQuotaDefaultLimitGB": "10", "managedLedgerDefaultMarkDeleteRateLimit": "0.1"}
"""The settings of the captured broker."""

NOT_THERE = re.compile(
    r"\S+ /admin/v2/brokers/(version|internal-configuration|configuration/runtime)"
    r"|POST /admin/v2/brokers/configuration/\S+/(notabool|abc)"
    r"|GET /admin/v2/brokers/\S+/ownedNamespaces"
    r"|\S+ /admin/v2/bookies/all"
    r"|GET /(admin|admin/v2|status\.html|admin/persistent/public/standalone/default)"
    r"|GET /lookup/v2/destination/.*"
    r"|GET \S+/backlog"
    r"|DELETE /admin/v2/namespaces/v1/n4"
    r"|\S+ \S+/t%2Fwith%20slash"
    r"|DELETE /admin/v2/clusters/standalone"
)
"""The calls that are not made, among them a redirect to another cluster and names of Pulsar 1, which contain a
cluster."""

Held = tuple[pulsar.Client, list[Any]]
"""A client with its open producers and consumers."""


def is_asked(exchange: dict[str, Any]) -> bool:
    """Returns whether a captured call is made. Calls that Apache refuses only for their content type are left out,
    because they are accepted here."""
    if "m" not in exchange or exchange["s"] == 415:
        return False
    return not NOT_THERE.fullmatch(f"{exchange['m']} {exchange['p']}")


async def do(replay: Replay, step: dict[str, Any], held: list[Held]) -> None:
    """Does what clients did between two captured calls."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    topic = "persistent://v1/n1/t1"

    def work() -> None:
        if "release" in step:
            held.pop()[0].close()
            return
        client = pulsar.Client(replay.broker_url, logger=quiet)
        held.append((client, []))
        if "hold" in step:
            producer = client.create_producer(topic, producer_name="vec-p")
            shared = pulsar.ConsumerType.Shared
            consumer = client.subscribe(topic, "s2", consumer_type=shared, consumer_name="vec-c")
            held[-1][1].extend((producer, consumer))
            return
        produce(client, step)
        held.pop()[0].close()

    await asyncio.to_thread(work)
    if step.get("produce") == topic:
        path = f"{replay.web_url}/admin/v2/persistent/v1/n1/t1/internalStats"
        async with replay.session.get(path) as answer:
            replay.ledger = (await answer.json())["ledgers"][-1]["ledgerId"]


def produce(client: pulsar.Client, step: dict[str, Any]) -> None:
    name = "vec-" + step["produce"].rpartition("/")[2]
    producer = client.create_producer(
        step["produce"], producer_name=name, batching_enabled=step["batch"], batching_max_publish_delay_ms=500
    )
    for number in range(step["count"]):
        more: dict[str, Any] = {"properties": {"k": f"v{number}"}}
        if step["key"]:
            more["partition_key"] = f"key{number % 2}"
        if step["event_time"]:
            more["event_timestamp"] = 1_700_000_000_000 + number
        if step["batch"]:
            producer.send_async(f"m{number}".encode(), lambda result, message_id: None, **more)
        else:
            producer.send(f"m{number}".encode(), **more)
    producer.flush()


async def ask_everything(web_url: str, broker_url: str) -> Replay:
    """Makes all captured calls. The result has the answers that differ from Apache's."""
    exchanges = json.loads(VECTORS.read_text())["exchanges"]
    held: list[Held] = []
    try:
        async with aiohttp.ClientSession() as session:
            replay = Replay(session, web_url, broker_url)
            for number, exchange in enumerate(exchanges):
                if "do" in exchange:
                    await do(replay, exchange["do"], held)
                elif is_asked(exchange):
                    await replay.call(number, exchange)
    finally:
        for client, _ in held:
            await asyncio.to_thread(client.close)
    return replay
