"""The calls that tell once a second how a broker or a topic is doing, as Server-Sent Events. Only Magnetar has them.

    event: broker                       event: topic
    data: {"time": ms, …}               data: {"time": ms, …}

Rates are those of the last second or so, unlike the rates of stats, which are those of the last full minute. They are
null in the first event of a stream when nobody watched before, because there is nothing to compare with. A stream ends
by itself, so that a caller whose login has expired does not watch for ever; programs connect again.

Source: the HTML Living Standard, Server-sent events.
"""

import asyncio
import resource
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import aiofiles
import orjson

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC
from magnetar.server.admin.subscription_requests import refuse_partitioned
from magnetar.server.admin.topic_calls import loaded_of_any_domain
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.web.calls import Answer, Call, Refusal, Route, Streamed
from magnetar.server.web.needs import SUPERUSER, topic
from magnetar.server.web.places import Place
from pulsar_proto.counted import counted

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.broker.live_totals import Totals
    from magnetar.server.topics.base_topic import BaseTopic

Json = dict[str, Any]

EVENT_SECONDS = 1.0
EVENTS_MAX = 300
"""After this many events, and so after five minutes, a stream ends. The parameter `events` asks for fewer."""

STREAMS_MAX = 200
"""How many streams a broker serves at a time."""

SUBSCRIPTIONS_MAX = 200
"""How many subscriptions of a topic one event tells about."""


async def of_broker(call: Call) -> Answer:
    """Streams an event `broker` each second: rates, counts, memory, latency, and what needs attention."""
    return _stream(call, _broker_events(call.broker))


async def of_topic(call: Call) -> Answer:
    """Streams an event `topic` each second: its rates, backlog and consumers by subscription. The stream ends when the
    topic is unloaded."""
    await refuse_partitioned(call, "A partitioned topic is watched by its partitions: ask for one of them")
    return _stream(call, _topic_events(await loaded_of_any_domain(call)))


def _stream(call: Call, data: AsyncGenerator[bytes, None]) -> Streamed:
    count = bodies.integer(call.query.get("events", str(EVENTS_MAX)), what="events")
    if not 1 <= count <= EVENTS_MAX:
        raise Refusal(400, f"events must be from 1 to {EVENTS_MAX}, not {count}")
    if call.broker.live_totals.streams >= STREAMS_MAX:
        raise Refusal(503, f"There are {STREAMS_MAX} live streams, no more are served: try again")
    return Streamed(_events(call.broker, data, count), "text/event-stream")


async def _events(broker: "Broker", data: AsyncGenerator[bytes, None], count: int) -> AsyncGenerator[bytes, None]:
    broker.live_totals.streams += 1
    try:
        async for event in data:
            yield event
            count -= 1
            if not count:
                return
            await asyncio.sleep(EVENT_SECONDS)
    finally:
        broker.live_totals.streams -= 1
        await data.aclose()


def _event(name: bytes, data: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, orjson.dumps(data))


async def _broker_events(broker: "Broker") -> AsyncGenerator[bytes, None]:
    totals = broker.live_totals
    while True:
        before, now = await totals.growth()
        if totals.told is None or totals.told[0] is not now:
            totals.told = now, _event(b"broker", await _broker_data(broker, before, now))
        yield totals.told[1]


async def _broker_data(broker: "Broker", before: "Totals", now: "Totals") -> Json:
    elapsed_s = now.at_s - before.at_s
    latency = broker.service.managed_ledgers.write_latency
    p50, p99 = latency.quantiles([0.5, 0.99], time.monotonic())
    return {
        "time": now_ms(),
        "msgRateIn": _rate(now.messages_in - before.messages_in, elapsed_s),
        "msgThroughputIn": _rate(now.bytes_in - before.bytes_in, elapsed_s),
        "msgRateOut": _rate(now.messages_out - before.messages_out, elapsed_s),
        "msgThroughputOut": _rate(now.bytes_out - before.bytes_out, elapsed_s),
        "storageBytes": now.stored_bytes,
        "topics": now.topics,
        "producers": now.producers,
        "subscriptions": now.subscriptions,
        "consumers": now.consumers,
        "connections": broker.clients.active,
        "memoryBytes": await _resident_bytes(),
        "publishLatencyMs": {"p50": p50 * 1_000, "p99": p99 * 1_000} if latency.count else None,
        "attention": _attention(broker),
    }


async def _topic_events(held: "BaseTopic") -> AsyncGenerator[bytes, None]:
    now_s, now = time.monotonic(), _counts(held)
    before_s, before = now_s, now
    while held.is_open:
        elapsed_s = now_s - before_s
        growth = {name: count - before.get(name, count) for name, count in now.items()}
        growth_in = growth.pop("")
        subscriptions = {
            name: {"msgRateOut": _rate(sent, elapsed_s), **_waiting(held.subscriptions[name])}
            for name, sent in growth.items()
        }
        yield _event(
            b"topic",
            {
                "time": now_ms(),
                "topic": held.name.full,
                "msgRateIn": _rate(growth_in, elapsed_s),
                "msgRateOut": _rate(sum(growth.values()), elapsed_s),
                "storageSize": held.stored_bytes,
                "producers": len(held.producers),
                "subscriptions": subscriptions,
            },
        )
        before_s, before = now_s, now
        now_s, now = time.monotonic(), _counts(held)


def _waiting(subscription: BaseSubscription) -> Json:
    stored = subscription if isinstance(subscription, Subscription) else None
    return {
        "msgBacklog": 0 if stored is None else stored.cursor.backlog,
        "unackedMessages": 0 if stored is None else stored.unacked_messages,
        "consumers": len(subscription.consumers),
    }


def _counts(held: "BaseTopic") -> dict[str, int]:
    """Returns how many messages were published, under "", and sent to each subscription, under its name."""
    watched = list(held.subscriptions.items())[:SUBSCRIPTIONS_MAX]
    sent = {name: each.counters_out().messages_out for name, each in watched}
    return {**sent, "": held.publishing.counters.messages_in}


def _rate(growth: int, elapsed_s: float) -> float | None:
    """Returns the growth per second, or None when no time has passed. Sums shrink when topics are unloaded; that is no
    rate."""
    return round(max(0, growth) / elapsed_s, 1) if elapsed_s > 0 else None


def _attention(broker: "Broker") -> list[str]:
    """Returns sentences about what an operator should look at."""
    found = []
    if broker.readiness.hindrance is not None:
        found.append(f"Messages cannot be stored: {broker.readiness.hindrance}")
    if broker.readiness.warning is not None:
        found.append(f"Messages can soon not be stored: {broker.readiness.warning}")
    if broker.metadata_link is not None and not broker.metadata_link.is_connected:
        found.append(f"The metadata store has been away for {broker.metadata_link.away_seconds:.0f} s")
    throttled = broker.clients.throttled()
    if throttled:
        are = counted(throttled, "connection is", "connections are")
        found.append(f"{are} read more slowly: they publish faster than messages are stored")
    return found


async def _resident_bytes() -> int:
    try:
        async with aiofiles.open("/proc/self/statm") as file:
            return int((await file.read()).split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


ROUTES = (
    Route("GET", "/admin/v2/broker-stats/live", of_broker, SUPERUSER, Place.ASKED_BROKER),
    Route("GET", f"{TOPIC}/live", of_topic, topic("GET_STATS"), Place.TOPIC),
)
