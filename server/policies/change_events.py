"""Keeps the policies of single topics in the namespace's topic `__change_events`, as Apache's brokers do. The last
event that names a topic holds the topic's current policies, and compaction keeps that event.

The broker that has loaded a namespace's `__change_events` owns the policies of the namespace's topics. It reads all
events when a topic of the namespace is first used, and from then on every change goes through it.

This room stands below the room of topics, so it declares the methods of topics that it needs in two Protocols,
`EventTopics` and `EventLog`; `topics/policy_event_topics.py` implements them.

Sources: SystemTopicBasedTopicPoliciesService (initPolicesCache, refreshTopicPoliciesCache, sendTopicPolicyEvent).
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from copy import deepcopy
from importlib import import_module
from typing import Any, Protocol

from magnetar.server.policies import policy_events as events
from magnetar.server.policies.event_schema import EVENT_SCHEMA, EVENT_SCHEMA_TEXT, SCHEMA_PROPERTIES, policy_names
from magnetar.server.policies.foreign_schema import check_schema
from magnetar.server.policies.policies import EVENTS_TOPIC
from magnetar.server.policies.topic_policies_service import TopicPoliciesChange, TopicPoliciesService
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_types import Schema, SchemaType, StoredSchema
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.errors import MalformedFrame, MalformedRecord, MetadataFault, TopicNotFound
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)


class EventLog(Protocol):
    """The messages of one `__change_events` topic."""

    def messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yields (position for logs, payload) from the oldest message to the newest one. Raises PulsarError."""

    async def append(self, payload: bytes) -> None:
        """Appends a message, and returns once the message is stored. Raises PulsarError when it cannot be stored."""


class EventTopics(Protocol):
    """Finds the `__change_events` topics of all namespaces."""

    async def exists(self, name: TopicName) -> bool:
        """Whether the topic exists. Raises PulsarError."""

    async def open(self, name: TopicName, *, create: bool) -> EventLog:
        """Opens the topic's log. Raises PulsarError, among them TopicNotFound for a missing topic that is not to be
        created."""


class _Namespace:
    """The state of one namespace's events in this broker."""

    __slots__ = ("changing", "held", "schemas")

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        """The topics' policies, by the key of their events (`policy_events.key_of`)."""
        self.schemas: dict[int, events.AvroType] = {}
        """The schemas that events were written with, by version."""
        self.changing = asyncio.Lock()
        """Held while policies are changed, so that two changes at once do not lose one of them."""


class ChangeEvents(TopicPoliciesService):
    """Keeps the policies of single topics. One object serves the process; it is used on the loop's thread only.
    `on_change(topic)` is called after a topic's policies were changed or deleted here."""

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
        return {} if known is None else known.held.get(events.key_of(topic, is_global=is_global), {})

    async def update(self, topic: TopicName, change: TopicPoliciesChange, *, is_global: bool = False) -> None:
        await self.load(topic.namespace)
        known = self._namespaces[topic.namespace]
        key = events.key_of(topic, is_global=is_global)
        async with known.changing:
            policies = deepcopy(known.held.get(key, {}))
            change(policies)
            await self._write(known, topic, policies, is_global)
            known.held[key] = policies
        self._on_change(topic)

    async def delete(self, topic: TopicName) -> None:
        if topic.namespace not in self._namespaces and not await self._topics.exists(topic_of(topic.namespace)):
            return
        await self.load(topic.namespace)
        known = self._namespaces[topic.namespace]
        async with known.changing:
            for is_global in (False, True):
                key = events.key_of(topic, is_global=is_global)
                if key in known.held:
                    await self._write(known, topic, None, is_global)
                    del known.held[key]
        self._on_change(topic)

    def forget(self, namespace: str) -> None:
        self._namespaces.pop(namespace, None)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _loaded(self, namespace: str, task: "asyncio.Task[None]") -> None:
        del self._loading[namespace]
        if not task.cancelled() and task.exception() is not None:
            log.warning("%s: its topics' policies cannot be read: %s", namespace, task.exception())

    async def _load(self, namespace: str) -> None:
        known = _Namespace()
        name = topic_of(namespace)
        if await self._topics.exists(name):
            try:
                event_log = await self._topics.open(name, create=False)
            except TopicNotFound:
                log.info("%s: no topic has policies any more", namespace)
            else:
                await _import_avro_library()
                async for place, payload in event_log.messages():
                    await self._apply(name, known, payload, place)
        self._namespaces[namespace] = known

    async def _apply(self, name: TopicName, known: _Namespace, payload: bytes, place: str) -> None:
        """Applies the event in a message to `known`. Logs and skips a message that is no event."""
        try:
            schema = await self._schema_of(known, name, events.version_of(payload))
            event = events.decode(payload, schema)
        except (MalformedFrame, MalformedRecord) as error:
            log.warning("%s: %s: %s", name.full, place, error)
            return
        if event is None:
            return
        if event.policies is None:
            known.held.pop(event.key, None)
        else:
            known.held[event.key] = event.policies

    async def _schema_of(self, known: _Namespace, name: TopicName, version: int) -> events.AvroType:
        """Returns the parsed schema of that version. Raises MalformedRecord when no such version is registered, or when
        events must not be decoded by it."""
        if version not in known.schemas:
            stored = await self._schemas.version(name.schema_id, version)
            if stored is None:
                raise MalformedRecord(f"its schema's version {version} is not registered")
            known.schemas[version] = _parsed(stored)
        return known.schemas[version]

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(
        self, known: _Namespace, topic: TopicName, policies: dict[str, Any] | None, is_global: bool
    ) -> None:
        """Writes the event that sets the topic's policies, or deletes them when `policies` is None. Returns once the
        event is stored. Raises PulsarError."""
        await _import_avro_library()
        name = topic_of(topic.namespace)
        event_log = await self._topics.open(name, create=True)
        version = await self._writing_version(name)
        schema = await self._schema_of(known, name, version)
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

    async def _writing_version(self, name: TopicName) -> int:
        """Returns the version of the schema that events are written with: the newest registered one if it has a field
        for every policy that this broker knows, so that fields of a later broker stay; else the version of this
        broker's own schema, which is registered if necessary."""
        latest = await self._schemas.latest(name.schema_id)
        if latest is not None and latest.schema.type is SchemaType.AVRO:
            try:
                if policy_names(EVENT_SCHEMA) <= policy_names(json.loads(latest.schema.data)):
                    return latest.version
            except ValueError:
                log.warning("%s: its registered schema is not JSON", name.full)
        ours = Schema(SchemaType.AVRO, EVENT_SCHEMA_TEXT, SCHEMA_PROPERTIES)
        return await self._schemas.put(name.schema_id, ours, CompatibilityStrategy.ALWAYS_COMPATIBLE)


async def _import_avro_library() -> None:
    """Imports fastavro on a thread, so that the import neither blocks the event loop nor delays the start of the
    server."""
    if "fastavro" not in sys.modules:
        await asyncio.to_thread(import_module, "fastavro")


def topic_of(namespace: str) -> TopicName:
    """Returns the topic that holds the policies of the namespace's topics."""
    return TopicName.parse(f"persistent://{namespace}/{EVENTS_TOPIC}")


def _parsed(stored: StoredSchema) -> events.AvroType:
    """Parses a schema with fastavro. Raises MalformedRecord when the version is not Avro, or when `check_schema`
    refuses it."""
    import fastavro

    try:
        definition = json.loads(stored.schema.data)
        check_schema(definition)
        return fastavro.parse_schema(definition)
    except (
        ValueError,
        TypeError,
        RecursionError,
        fastavro.schema.SchemaParseException,
        fastavro.schema.UnknownType,
    ) as error:
        raise MalformedRecord(f"its schema's version {stored.version} is not Avro: {error}") from error
