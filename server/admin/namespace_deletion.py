"""Deletes a namespace with everything in it. Source: NamespacesBase.internalDeleteNamespaceAsync."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from magnetar.metadata import paths
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.admin import json_records
from magnetar.server.policies.namespace_records import NamespaceNotFound
from magnetar.server.topics.partitioned_deletion import delete_partitioned
from magnetar.server.web.calls import Refusal
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.topics.broker_service import BrokerService

DELETED_AT_ONCE = 32
"""The number of topics that are deleted at the same time."""

DOMAINS = ("persistent", "non-persistent")


async def delete_namespace(broker: "Broker", namespace: str, *, force: bool) -> None:
    """Deletes a namespace and its system topics; with `force` the topics of users as well. The namespace is marked as
    deleted first, so that no client creates a topic meanwhile; the mark is taken back when the deletion fails. Raises
    Refusal 404 when the namespace does not exist and 409 when it has topics of users, PulsarError, MetadataError."""
    service = broker.service
    if await service.policies.namespaces.get(namespace) is None:
        raise Refusal(404, f"Namespace {namespace} does not exist.")
    await _check_empty(service, namespace, force)
    await _mark(service, namespace, True)
    try:
        await _check_empty(service, namespace, force)
        await _delete_topics(service, namespace)
    except BaseException:
        await _mark(service, namespace, False)
        raise
    store = service.metadata
    for path in (
        f"{paths.PARTITIONED_TOPICS}/{namespace}",
        f"{paths.MANAGED_LEDGERS}/{namespace}",
        f"{paths.SCHEMAS}/{namespace}",
        paths.local_policies_path(namespace),
        paths.policies_path(namespace),
    ):
        await delete_tree(store, path)
    await service.policies.namespaces.refresh(namespace)


async def _check_empty(service: "BrokerService", namespace: str, force: bool) -> None:
    if force:
        return
    names = [*await service.catalog.topics_of(namespace), *service.catalog.non_persistent_topics_of(namespace)]
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


async def _delete_topics(service: "BrokerService", namespace: str) -> None:
    for domain in DOMAINS:
        for name in await service.catalog.partitioned.names(namespace, domain):
            await delete_partitioned(service, TopicName.parse(name), force=True)
    names = [*await service.catalog.topics_of(namespace), *service.catalog.non_persistent_topics_of(namespace)]
    parsed = [TopicName.parse(name) for name in names]
    users = [each for each in parsed if not is_system_topic(each)]
    for start in range(0, len(users), DELETED_AT_ONCE):
        await asyncio.gather(*(_delete(service, each) for each in users[start : start + DELETED_AT_ONCE]))
    for each in parsed:
        if is_system_topic(each):  # deleted last, because one of them holds the policies of other topics
            await _delete(service, each)


async def _delete(service: "BrokerService", name: TopicName) -> None:
    with contextlib.suppress(TopicNotFound):
        await service.delete_topic(name, force=True)


async def delete_tree(store: MetadataStore, path: str) -> None:
    """Deletes a record and all records below it; has no effect when there is none. Raises MetadataError."""
    for child in await json_records.children(store, path):
        await delete_tree(store, f"{path}/{child}")
    try:
        await store.delete(path)
    except NoNodeError:
        return
