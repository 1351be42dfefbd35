"""Calls that clear the backlog of, or delete, all subscriptions of a namespace or of a bundle.

Source: NamespacesBase (internalClearNamespaceBacklog, internalUnsubscribeNamespace and those for bundles).
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.server.admin.bundle_calls import topics_in
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.admin.namespace_calls import check_exists, without_system_topics
from magnetar.server.admin.over_bundles import at_owners
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.process.turns import in_portions
from magnetar.server.topics import backlog
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import namespace
from magnetar.server.web.places import Place
from pulsar_proto.errors import PulsarError, TopicNotFound
from pulsar_proto.names import PERSISTENT, TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription

TOPICS_AT_ONCE = 8
"""The number of topics that a call on a whole namespace works on at the same time."""


async def clear_backlog(call: Call) -> Answer:
    return await _at_all_bundles(call, "clearBacklog", _clear)


async def clear_backlog_of_bundle(call: Call) -> Answer:
    await _of_all(call, await topics_in(call), _clear)
    return NO_CONTENT


async def unsubscribe(call: Call) -> Answer:
    return await _at_all_bundles(call, "unsubscribe", _unsubscribe)


async def unsubscribe_of_bundle(call: Call) -> Answer:
    await _of_all(call, await topics_in(call), _unsubscribe)
    return NO_CONTENT


async def _at_all_bundles(call: Call, what: str, work: Callable[["Subscription"], Awaitable[None]]) -> Answer:
    """Does `work` on the subscription that the path names, or on all subscriptions, in every bundle of the namespace,
    at the bundle's owner. A bundle without an owner gets one, whereas Apache's broker skips the topics of such a
    bundle."""
    name, service = namespace_of(call), call.broker.service
    await check_exists(call, name)
    topics = await service.catalog.topics_of(name)
    if call.broker.ownership.is_sole:
        await _of_all(call, topics, work)
        return NO_CONTENT
    subscription = call.parts.get("subscription")
    tail = f"{what}/{quote(subscription, safe='')}" if subscription is not None else what

    bundles = await call.broker.ownership.bundles.get(name)
    by_bundle: dict[BundleName, list[str]] = defaultdict(list)
    async for topic in in_portions(topics):
        by_bundle[bundles.of_topic(topic)].append(topic)

    async def here(bundle: BundleName) -> None:
        await _of_all(call, by_bundle[bundle], work)

    path = f"/admin/v2/namespaces/{quote(name)}"
    await at_owners(
        call.broker, name, here, method="POST", path=lambda bundle: f"{path}/{bundle.range}/{tail}", acquire=True
    )
    return NO_CONTENT


async def _clear(subscription: "Subscription") -> None:
    await backlog.clear(subscription)


async def _unsubscribe(subscription: "Subscription") -> None:
    if subscription.consumers:
        raise Refusal(412, "Subscription has active connected consumers")
    await subscription.delete()


async def _of_all(call: Call, names: Sequence[str], work: Callable[["Subscription"], Awaitable[None]]) -> None:
    """Does `work` on subscriptions of the users' persistent topics among `names`: on the subscription that the path
    names, or on all subscriptions. A fault on one topic does not stop the work on the others. When all topics are done,
    raises the first fault if it is a Refusal or PulsarError, otherwise a RuntimeError."""
    wanted = call.parts.get("subscription")
    users = [name for name in await without_system_topics(names) if name.startswith(f"{PERSISTENT}://")]
    faults: list[Exception] = []
    left = iter(users)

    async def take_turns() -> None:
        for name in left:
            await asyncio.sleep(0)  # Work that finds everything in memory never waits, so other tasks run here.
            try:
                await one(TopicName.parse(name))
            except Exception as fault:
                faults.append(fault)

    async def one(name: TopicName) -> None:
        try:
            topic = await call.broker.service.get_topic(name, create=False)
        except TopicNotFound:
            return
        for subscription in list(topic.subscriptions.values()):
            if wanted in (None, subscription.name):
                await work(subscription)

    await asyncio.gather(*(take_turns() for _ in range(TOPICS_AT_ONCE)))
    for fault in faults:
        if isinstance(fault, Refusal | PulsarError):
            raise fault
        raise RuntimeError(f"not done for every topic of {namespace_of(call)}") from fault


ROUTES = (
    Route("POST", f"{NAMESPACES}/clearBacklog", clear_backlog, namespace("CLEAR_BACKLOG"), Place.ANY_BROKER),
    Route(
        "POST",
        f"{NAMESPACES}/clearBacklog/{{subscription}}",
        clear_backlog,
        namespace("CLEAR_BACKLOG"),
        Place.ANY_BROKER,
    ),
    Route(
        "POST",
        f"{NAMESPACES}/{{bundle}}/clearBacklog",
        clear_backlog_of_bundle,
        namespace("CLEAR_BACKLOG"),
        Place.FOUND_BUNDLE,
    ),
    Route(
        "POST",
        f"{NAMESPACES}/{{bundle}}/clearBacklog/{{subscription}}",
        clear_backlog_of_bundle,
        namespace("CLEAR_BACKLOG"),
        Place.FOUND_BUNDLE,
    ),
    Route(
        "POST", f"{NAMESPACES}/unsubscribe/{{subscription}}", unsubscribe, namespace("UNSUBSCRIBE"), Place.ANY_BROKER
    ),
    Route(
        "POST",
        f"{NAMESPACES}/{{bundle}}/unsubscribe/{{subscription}}",
        unsubscribe_of_bundle,
        namespace("UNSUBSCRIBE"),
        Place.FOUND_BUNDLE,
    ),
)
