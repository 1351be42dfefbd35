"""The calls that answer with one short row of numbers for each loaded topic of a namespace, or of a bundle.

The stats of a topic (`…/stats`) have a hundred fields and a part for each client; asked for ten thousand topics, they
would be tens of megabytes. A row has the numbers by which people search and sort topics. Apache's broker has no such
call.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from magnetar.server.admin.bundle_calls import checked_bundle
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.admin.namespace_calls import check_exists
from magnetar.server.admin.over_bundles import at_owners
from magnetar.server.broker.broker import Broker
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import bundle_of
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.topic import Topic
from magnetar.server.web.calls import Answer, Call, Route, Text
from magnetar.server.web.json_encoding import encoded_parts
from magnetar.server.web.needs import namespace
from magnetar.server.web.places import Place

COLUMNS: Final = (
    "topic",
    "msgRateIn",
    "msgRateOut",
    "msgThroughputIn",
    "msgThroughputOut",
    "storageSize",
    "backlog",
    "backlogSize",
    "oldestBacklogMessageAgeSeconds",
    "producers",
    "subscriptions",
    "consumers",
)
"""What the cells of a row are. `backlog` is the largest of the topic's subscriptions, in entries; the age is null for a
topic without a backlog, and as long as the oldest message's time is not known."""

Row = list[Any]


SHARED_FOR: Final = 100
"""An answer about a namespace is given to everybody for this many times as long as it took to make, so that any number
of open pages costs about a hundredth of a core for each namespace."""
NAMESPACES_MAX: Final = 16
"""How many namespaces' answers are kept at most; the answer that was asked for least lately goes first."""

_Shared = LRUCache[str, tuple[float, bytes]]
"""Namespace -> until when the answer is shared, by the monotonic clock, and the answer."""
_shared: "WeakKeyDictionary[Broker, _Shared]" = WeakKeyDictionary()


async def of_namespace(call: Call) -> Answer:
    """Answers with the rows of all loaded topics of the namespace."""
    name = namespace_of(call)
    await check_exists(call, name)
    shared, began = _shared.setdefault(call.broker, LRUCache(NAMESPACES_MAX)), time.monotonic()
    until, body = shared.get(name, (0.0, b""))
    if began >= until:
        body = b"".join(await encoded_parts(await _of_namespace(call, name)))
        ended = time.monotonic()
        shared[name] = ended + SHARED_FOR * (ended - began), body
    return Text(body)


async def _of_namespace(call: Call, name: str) -> dict[str, Any]:
    """Each bundle's owner makes the rows of its topics; bundles without an owner have no loaded topics."""
    if call.broker.ownership.is_sole:
        return _answer(await _rows(await _loaded(call, name)))
    bundles = await call.broker.ownership.bundles.get(name)
    by_bundle: dict[BundleName, list[BaseTopic]] = defaultdict(list)
    for topic in await _loaded(call, name):
        by_bundle[bundles.of_topic(topic.name.full)].append(topic)

    async def here(bundle: BundleName) -> dict[str, Any]:
        return _answer(await _rows(by_bundle[bundle]))

    path = f"/admin/v2/namespaces/{quote(name)}"
    answers = await at_owners(
        call.broker, name, here, method="GET", path=lambda bundle: f"{path}/{bundle.range}/topicTable", acquire=False
    )
    return _answer([row for answer in answers for row in answer["topics"]])


async def of_bundle(call: Call) -> Answer:
    """Answers with the rows of the loaded topics of one bundle."""
    boundaries, bundle = await checked_bundle(call)
    loaded = await _loaded(call, namespace_of(call))
    return _answer(await _rows([each for each in loaded if bundle_of(boundaries, each.name.full) == bundle]))


async def _loaded(call: Call, name: str) -> list[BaseTopic]:
    return [each async for each in in_portions(call.broker.service.all_topics) if each.name.namespace == name]


async def _rows(topics: Sequence[BaseTopic]) -> list[Row]:
    at_ms = now_ms()
    return [row_of(topic, at_ms) async for topic in in_portions(topics)]


def _answer(rows: list[Row]) -> dict[str, Any]:
    return {"columns": COLUMNS, "topics": rows}


def row_of(topic: BaseTopic, at_ms: int) -> Row:
    """Returns a topic's row. `at_ms` is the present time."""
    counters = topic.publishing.counters
    out = topic.counters_out()
    size = backlog = backlog_bytes = 0
    oldest_ms = None
    if isinstance(topic, Topic):
        cursors = [each.cursor for each in topic.subscriptions.values()]
        size = topic.ledger.total_size
        backlog = max((cursor.backlog for cursor in cursors), default=0)
        backlog_bytes = max((cursor.backlog_size for cursor in cursors), default=0)
        oldest_ms = topic.quota.oldest.known_ms()
    return [
        topic.name.full,
        counters.message_rate.value,
        out.message_rate.value,
        counters.byte_rate.value,
        out.byte_rate.value,
        size,
        backlog,
        backlog_bytes,
        None if oldest_ms is None else (at_ms - oldest_ms) // 1000,
        len(topic.producers),
        len(topic.subscriptions),
        sum(len(each.consumers) for each in topic.subscriptions.values()),
    ]


ROUTES = (
    Route("GET", f"{NAMESPACES}/topicTable", of_namespace, namespace("GET_TOPICS"), Place.ANY_BROKER),
    Route("GET", f"{NAMESPACES}/{{bundle}}/topicTable", of_bundle, namespace("GET_TOPICS"), Place.BUNDLE),
)
