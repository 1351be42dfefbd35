"""Deletes a namespace with everything in it. Source: NamespacesBase.internalDeleteNamespaceAsync."""

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from magnetar.metadata import paths
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.admin import json_records
from magnetar.server.admin.non_persistent_lists import non_persistent_topics
from magnetar.server.admin.over_bundles import at_owners
from magnetar.server.admin.topic_deletion import delete_anywhere
from magnetar.server.policies.namespace_records import NamespaceNotFound
from magnetar.server.topics.partitioned_deletion import delete_partitioned
from magnetar.server.web.calls import Refusal
from pulsar_proto.errors import PulsarError, TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.topics.broker_service import BrokerService

log = logging.getLogger(__name__)

BUNDLE_DATA = "/loadbalance/bundle-data"
"""The path below which the leader stores the load of bundles."""

DELETED_AT_ONCE = 32
"""The number of topics that are deleted at the same time."""

DOMAINS = ("persistent", "non-persistent")


async def delete_namespace(broker: "Broker", namespace: str, *, force: bool) -> None:
    """Deletes a namespace and its system topics, and with `force` the topics of users as well. The namespace is marked
    as deleted first, so that no client creates a topic meanwhile; the mark is removed when the deletion fails. Raises
    Refusal 404 when the namespace does not exist, Refusal 409 when it has topics of users and `force` is not set,
    PulsarError, and MetadataError."""
    service = broker.service
    if await service.policies.namespaces.get(namespace) is None:
        raise Refusal(404, f"Namespace {namespace} does not exist.")
    # The topics are listed before the mark is set: Apache's brokers list no topic of a marked namespace.
    unstored = await non_persistent_topics(broker, namespace)
    await _check_empty(service, namespace, unstored, force)
    await _mark(service, namespace, True)
    try:
        await _check_empty(service, namespace, unstored, force)
        await _delete_topics(broker, namespace, unstored)
    except BaseException:
        await _mark(service, namespace, False)
        raise
    await _release_bundles(broker, namespace)
    store = service.metadata
    for path in (
        f"{BUNDLE_DATA}/{namespace}",
        f"{paths.PARTITIONED_TOPICS}/{namespace}",
        f"{paths.MANAGED_LEDGERS}/{namespace}",
        f"{paths.SCHEMAS}/{namespace}",
        paths.local_policies_path(namespace),
        paths.policies_path(namespace),
    ):
        await delete_tree(store, path)
    await service.policies.namespaces.refresh(namespace)


async def _check_empty(service: "BrokerService", namespace: str, unstored: list[str], force: bool) -> None:
    """Raises Refusal 409 when the namespace has topics of users and `force` is not set. `unstored` are the namespace's
    non-persistent topics."""
    if force:
        return
    names = [*await service.catalog.topics_of(namespace), *unstored]
    names += service.catalog.non_persistent_topics_of(namespace)
    for domain in DOMAINS:
        names += await service.catalog.partitioned.names(namespace, domain)
    if not all(is_system_topic(TopicName.parse(name)) for name in names):
        raise Refusal(409, "Cannot delete non empty namespace")


async def _mark(service: "BrokerService", namespace: str, deleted: bool) -> None:
    def change(policies: dict[str, Any]) -> None:
        policies["deleted"] = deleted

    try:
        await service.policies.namespaces.update(namespace, change)
    except NamespaceNotFound:
        raise Refusal(404, f"Namespace {namespace} does not exist.") from None


async def _release_bundles(broker: "Broker", namespace: str) -> None:
    """Makes the owners of the namespace's bundles give up their ownership. Each owner is asked by the call that deletes
    a bundle, because an owner accepts this call for a namespace that is marked as deleted. A bundle that stays owned
    does no harm: the bundle has no topics, and its lock ends with the owner's session."""
    if broker.ownership.is_sole:
        return
    path = f"/admin/v2/namespaces/{quote(namespace)}"
    try:
        await at_owners(
            broker,
            namespace,
            broker.moves.unload,
            method="DELETE",
            path=lambda bundle: f"{path}/{bundle.range}",
            query={"force": "true"},
            acquire=False,
        )
    except (Refusal, PulsarError) as error:
        log.warning("%s is deleted, but some of its bundles are still owned: %s", namespace, error)


async def _delete_topics(broker: "Broker", namespace: str, unstored: list[str]) -> None:
    service = broker.service
    for domain in DOMAINS:
        for name in await service.catalog.partitioned.names(namespace, domain):
            await delete_partitioned(service, TopicName.parse(name), True, partial(delete_anywhere, broker))
    names = {*await service.catalog.topics_of(namespace), *unstored}
    names.update(service.catalog.non_persistent_topics_of(namespace))
    parsed = [TopicName.parse(name) for name in sorted(names)]
    users = [each for each in parsed if not is_system_topic(each)]
    for start in range(0, len(users), DELETED_AT_ONCE):
        await asyncio.gather(*(_delete(broker, each) for each in users[start : start + DELETED_AT_ONCE]))
    for each in parsed:
        if is_system_topic(each):  # System topics are deleted last: one of them has the topic policies.
            await _delete(broker, each)


async def _delete(broker: "Broker", name: TopicName) -> None:
    with contextlib.suppress(TopicNotFound):
        await delete_anywhere(broker, name, True)


async def delete_tree(store: MetadataStore, path: str) -> None:
    """Deletes a record and all records below it; has no effect when there is none. Raises MetadataError."""
    for child in await json_records.children(store, path):
        await delete_tree(store, f"{path}/{child}")
    try:
        await store.delete(path)
    except NoNodeError:
        return
