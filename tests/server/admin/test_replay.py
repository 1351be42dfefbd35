"""Whatever Apache Pulsar 4.0.7 answered to an administrator is answered here too: its exchanges, made again in order.

Three lists say what is not equal: calls that are not there yet, answers that are better here, and differences that are
no fault. Everything else must agree in status, body and error text.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pulsar

from server.app import Standalone, StandaloneOptions
from tests.server.admin.replay import Mismatch, Replay, report

VECTORS = Path(__file__).parents[2] / "vectors" / "rest_exchanges.json"
SETTINGS = {"backlogQuotaDefaultLimitGB": "10", "managedLedgerDefaultMarkDeleteRateLimit": "0.1"}
"""As the broker of the captures had them."""

NOT_THERE = re.compile(
    r"\S+ /admin/v2/brokers/(version|internal-configuration|configuration/\S*)"
    r"|GET /admin/v2/brokers/configuration/values"
    r"|GET /admin/v2/brokers/\S+/ownedNamespaces"
    r"|\S+ /admin/v2/bookies/all"
    r"|GET /(admin|admin/v2|status\.html|admin/persistent/public/standalone/default)"
    r"|GET /lookup/v2/destination/.*"
    r"|\S+ \S+/bookieAffinity"
    r"|GET \S+/backlog"
    r"|GET \S+/topicHashPositions\S*"
    r"|DELETE /admin/v2/namespaces/v1/n4"
    r"|\S+ \S+/t%2Fwith%20slash"
    r"|DELETE /admin/v2/clusters/standalone"
)
"""Not asked. A redirect to another cluster, and names of Pulsar 1 with a cluster in the middle, are among them."""

BETTER: tuple[tuple[str, int], ...] = (
    (r'PUT /admin/v2/namespaces/v1/n3 \{"bundles":\{"numBundles":1000000000000\}\}', 409),
    (r'POST \S+/permissions/\S+ \["bad"\]', 400),
    (r"GET \S+/v1/n1/permissions ", 200),
    (r'\S+ \S+ (\["Bad"\]|"bad"|\{"inactiveTopicDeleteMode":"bad"\})', 400),
    (r"DELETE /admin/v2/namespaces/v1/pol/[A-Za-z]+ ", 405),
    (r"GET /admin/v2/namespaces/v1/pol/(nosuchpolicy) ", 404),
    (r"GET /admin/v2/namespaces/public/default/destinations ", 404),
    (r'POST /admin/v2/namespaces/(v1/nope|nope/nope)/antiAffinity "g1"', 404),
    (r"GET /admin/v2/namespaces/v1/nope/antiAffinity ", 204),
    (r"GET /admin/v2/namespaces/standalone/antiAffinity/g1\?tenant=v1 ", 200),
    (r"\S+ /admin/v2/namespaces/(v1/nope|nope/nope)/\S+ .*", 404),
    (r"\S+ \S+/backlogQuota\?backlogQuotaType=bad .*", 400),
    (r"POST \S+/messageTTL\?messageTTL=x ", 400),
    (r"(GET|POST|PUT) \S+/(position|messageid|resetcursor)/(x|0|-1) ", 400),
    (r"(POST|PUT) \S+/(backlogQuota|partitions|backlogSize|expireMessages|resetcursor) ", 400),
    (r"GET \S+/(nope|np1)/internal-info ", 404),
    (r"GET \S+/entry/(999|-1) ", 404),
    (r"(GET|POST) \S+/t1/subscription/nope/\S+ .*", 404),
    (r"GET \S+/lookup/v2/topic/bad/public/default/t ", 404),
    (r"GET /lookup/v2/topic/bad/public/default/t ", 404),
    (r"GET /lookup/v2/topic/persistent/v1/n1/t1\?listenerName=nope ", 503),
    (r"PUT \S+/non-persistent/\S+/compaction ", 405),
    (r"PUT /admin/v2/namespaces/v1/n1/bad/unload ", 412),
    (r"POST /admin/v2/namespaces/v1/n1/clearBacklog/s1x ", 204),
    (r"DELETE /admin/v2/persistent/v1/n1/__change_events ", 412),
    (r"GET \S+/t1/subscriptions ", 200),
    (r"GET \S+/t1/subscription/s2/position/1 ", 200),
)
"""(method, path and body; the status here). Errors of the asker are told as such, what does not exist is not made by
the way, names of choices that do not exist are refused, a position that is excluded is."""

NO_FAULT: tuple[tuple[str, int], ...] = (
    (r"GET /admin/v2/namespaces/v1/pol ", 200),
    (r"GET /admin/v2/clusters ", 200),
    (r"GET \S+/t1/internalStats\?metadata=true ", 200),
    (r"GET \S+/pt/(internal-info|partitioned-internalStats) ", 200),
    (r"GET \S+/batched/internalStats ", 200),
    (r"POST \S+/all_subscription/expireMessages/3600 ", 409),
    (r"GET \S+/t1/compaction ", 200),
    (r"(POST|PUT) /admin/v2/namespaces/v1/n1/0x40000000_0x80000000/\S+ .*", 204),
)
"""Calls of other sections changed what is shown; a topic has no ledger before its first message; the largest bundle is
the one with the most topics that are loaded; which subscription is refused first depends on a hash."""


Held = tuple[pulsar.Client, list[Any]]
"""A client and what is open on it."""


def allowed(mismatch: Mismatch) -> bool:
    return any(
        re.fullmatch(pattern, mismatch.call) and mismatch.got_status == status
        for pattern, status in (*BETTER, *NO_FAULT)
    )


def is_asked(exchange: dict[str, Any]) -> bool:
    """Nor is what Apache refuses for its content type alone, which is taken here."""
    if "m" not in exchange or exchange["s"] == 415:
        return False
    return not NOT_THERE.fullmatch(f"{exchange['m']} {exchange['p']}")


async def do(replay: Replay, step: dict[str, Any], held: list[Held]) -> None:
    """What clients did between the calls."""
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


async def test_administrators_are_answered_as_apache_answers_them(tmp_path: Path) -> None:
    exchanges = json.loads(VECTORS.read_text())["exchanges"]
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0, overrides=SETTINGS))
    await server.start()
    held: list[Held] = []
    try:
        async with aiohttp.ClientSession() as session:
            replay = Replay(session, server.web_url, server.broker_url)
            for number, exchange in enumerate(exchanges):
                if "do" in exchange:
                    await do(replay, exchange["do"], held)
                elif is_asked(exchange):
                    await replay.call(number, exchange)
    finally:
        for client, _ in held:
            await asyncio.to_thread(client.close)
        await server.stop()
    faults = [each for each in replay.mismatches if not allowed(each)]
    assert not faults, "\n" + report(faults)
    assert replay.calls >= 1_320, "the captures are asked"
    assert replay.calls - len(replay.mismatches) >= 1_240, "most agree wholly"
