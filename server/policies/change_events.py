"""Keeps the policies of single topics in the namespace's topic `__change_events`, as Apache's brokers do. The last
event of a topic holds the topic's current policies, and compaction keeps that event.

A standalone server uses this service; in a cluster `magnetar.server.peers.followed_policies` takes its place. The
service reads all events of a namespace when a topic of the namespace is first used. It does not follow the topic
afterwards, because every change of these policies goes through the service.

This package may not import the package `topics`. So this module declares the methods of topics that it needs in two
Protocols, `EventTopics` and `EventLog`, which `topics/policy_event_topics.py` implements.

Sources: SystemTopicBasedTopicPoliciesService (initPolicesCache, refreshTopicPoliciesCache, sendTopicPolicyEvent).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from typing import Any, Protocol

from magnetar.server.policies import policy_events as events
from magnetar.server.policies.event_table import EventTable, import_avro_library, topic_of
from magnetar.server.policies.topic_policies_service import TopicPoliciesChange, TopicPoliciesService
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_types import Schema
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.errors import MetadataFault, TopicNotFound
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)


class EventLog(Protocol):
    """The interface of one `__change_events` topic: its messages can be read and appended."""

    def messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yields (position for log lines, payload) from the oldest message to the newest message. Raises PulsarError
        when the topic cannot be read."""

    async def append(self, payload: bytes) -> object:
        """Appends a message, and returns once the message is stored. Raises PulsarError when the message cannot be
        stored."""


class EventTopics(Protocol):
    """The interface through which the `__change_events` topics of all namespaces are found."""

    async def exists(self, name: TopicName) -> bool:
        """Whether the topic exists. Raises PulsarError when the metadata store does not answer."""

    async def open(self, name: TopicName, *, create: bool) -> EventLog:
        """Opens the topic and returns its messages. Raises TopicNotFound when the topic is missing and `create` is not
        set, and another PulsarError when the topic cannot be opened."""


class _Namespace:
    """The state of one namespace's events in this broker."""

    __slots__ = ("changing", "table")

    def __init__(self, table: EventTable) -> None:
        self.table = table
        self.changing = asyncio.Lock()
        """The lock that is held while policies are changed, so that of two simultaneous changes neither is lost."""


class ChangeEvents(TopicPoliciesService):
    """Keeps the policies of single topics. One object serves the whole process. Every method is called on the loop's
    thread. `on_change(topic)` is called after this object has changed or deleted a topic's policies."""

    def __init__(
        self,
        topics: EventTopics,
        schemas: SchemaRegistry,
        *,
        cluster: str,
        new_producer_name: Callable[[], str],
        on_change: Callable[[TopicName], None],
        clock_ms: Callable[[], int],
    ) -> None:
        self._topics = topics
        self._schemas = schemas
        self._cluster = cluster
        self._new_producer_name = new_producer_name
        self._on_change = on_change
        self._clock_ms = clock_ms
        self._namespaces: dict[str, _Namespace] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._producer_name = ""
        self._sequence_id = 0

    # --- TopicPoliciesService ----------------------------------------------------------------------------------------

    async def load(self, namespace: str) -> None:
        if namespace in self._namespaces:
            return
        task = self._loading.get(namespace)
        if task is None:
            task = self._loading[namespace] = asyncio.get_running_loop().create_task(self._load(namespace))
            task.add_done_callback(lambda ended: self._loaded(namespace, ended))
        await asyncio.shield(task)

    def get(self, topic: TopicName, *, is_global: bool = False) -> Mapping[str, Any]:
        known = self._namespaces.get(topic.namespace)
        held = None if known is None else known.table.held
        return held.get(events.key_of(topic, is_global=is_global), {}) if held else {}

    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        await self.load(topic.namespace)
        known = self._namespaces[topic.namespace]
        key = events.key_of(topic, is_global=is_global)
        async with known.changing:
            policies = deepcopy(known.table.held.get(key, {}))
            change(policies)
            await self._write(known, topic, policies, is_global)
            known.table.held[key] = policies
        self._on_change(topic)

    async def delete(self, topic: TopicName) -> None:
        if topic.namespace not in self._namespaces and not await self._topics.exists(topic_of(topic.namespace)):
            return
        await self.load(topic.namespace)
        known = self._namespaces[topic.namespace]
        async with known.changing:
            for is_global in (False, True):
                key = events.key_of(topic, is_global=is_global)
                if key in known.table.held:
                    await self._write(known, topic, None, is_global)
                    del known.table.held[key]
        self._on_change(topic)

    def forget(self, namespace: str) -> None:
        self._namespaces.pop(namespace, None)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _loaded(self, namespace: str, task: "asyncio.Task[None]") -> None:
        del self._loading[namespace]
        if not task.cancelled() and task.exception() is not None:
            log.warning("%s: its topics' policies cannot be read: %s", namespace, task.exception())

    async def _load(self, namespace: str) -> None:
        name = topic_of(namespace)
        known = _Namespace(EventTable(name, self._schemas))
        if await self._topics.exists(name):
            try:
                event_log = await self._topics.open(name, create=False)
            except TopicNotFound:
                log.info("%s: no topic has policies any more", namespace)
            else:
                await import_avro_library()
                async for place, payload in event_log.messages():
                    await known.table.apply_payload(payload, place)
        self._namespaces[namespace] = known

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(
        self, known: _Namespace, topic: TopicName, policies: dict[str, Any] | None, is_global: bool
    ) -> None:
        """Writes the event that sets the topic's policies, or that deletes the policies when `policies` is None.
        Returns once the event is stored. Raises PulsarError when the event cannot be stored."""
        await import_avro_library()
        name = topic_of(topic.namespace)
        event_log = await self._topics.open(name, create=True)
        chosen = await known.table.writing_schema()
        if isinstance(chosen, Schema):
            version = await self._schemas.put(name.schema_id, chosen, CompatibilityStrategy.ALWAYS_COMPATIBLE)
        else:
            version = chosen.version
        schema = await known.table.schema_of(version)
        if not self._producer_name:
            self._producer_name = self._new_producer_name()
        try:
            payload = events.encode(
                topic,
                policies,
                schema,
                version,
                is_global=is_global,
                cluster=self._cluster,
                producer_name=self._producer_name,
                sequence_id=self._sequence_id,
                now_ms=self._clock_ms(),
            )
        except ValueError as error:
            raise MetadataFault(str(error)) from error
        self._sequence_id += 1
        await event_log.append(payload)
