"""Topic policies in the namespace's topic `__change_events`, as Apache's brokers keep them: the last event of a topic
is what holds, and compaction keeps it.

Events are read once, when a topic of the namespace is first used, and written through this broker alone: a namespace's
policies are the business of the broker that has loaded its `__change_events`.

Sources: SystemTopicBasedTopicPoliciesService; facts 7 and 14.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib import import_module
from typing import TYPE_CHECKING, Any

from magnetar.server.policies import policy_events as events
from magnetar.server.policies.event_schema import EVENT_SCHEMA, EVENT_SCHEMA_TEXT, SCHEMA_PROPERTIES, policy_names
from magnetar.server.policies.foreign_schema import check_schema
from magnetar.server.policies.topic_policies import TopicPolicies, TopicPoliciesChange
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.schema.schema_types import Schema, SchemaType, StoredSchema
from magnetar.server.schema.strategies import CompatibilityStrategy
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.errors import MalformedFrame, MalformedRecord, MetadataFault, TopicNotFound
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService
    from magnetar.server.topics.topic import Topic

log = logging.getLogger(__name__)

LOCAL_NAME = "__change_events"
READ_AT_ONCE = 100
READ_BYTES_AT_ONCE = 5 << 20


class _Namespace:
    """What is known of one namespace's events."""

    __slots__ = ("changing", "held", "schemas")

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        """Policies by key."""
        self.schemas: dict[int, events.Schema] = {}
        self.changing = asyncio.Lock()


class ChangeEvents(TopicPolicies):
    """One for the process; on the loop's thread. `on_change(topic)`: what holds for it has changed."""

    def __init__(self, service: "BrokerService", clock_ms: Callable[[], int]) -> None:
        self._service = service
        self._clock_ms = clock_ms
        self._namespaces: dict[str, _Namespace] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._producer_name = ""
        self._sequence_id = 0

    # --- TopicPolicies -----------------------------------------------------------------------------------------------

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
        self._service.policies.topic_changed(topic)

    async def delete(self, topic: TopicName) -> None:
        if topic.namespace not in self._namespaces and not await self._exists(topic.namespace):
            return
        await self.load(topic.namespace)
        known = self._namespaces[topic.namespace]
        async with known.changing:
            for is_global in (False, True):
                key = events.key_of(topic, is_global=is_global)
                if key in known.held:
                    await self._write(known, topic, None, is_global)
                    del known.held[key]
        self._service.policies.topic_changed(topic)

    def forget(self, namespace: str) -> None:
        self._namespaces.pop(namespace, None)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _exists(self, namespace: str) -> bool:
        return await self._service.catalog.topic_exists(topic_of(namespace))

    def _loaded(self, namespace: str, task: "asyncio.Task[None]") -> None:
        del self._loading[namespace]
        if not task.cancelled() and task.exception() is not None:
            log.warning("%s: its topics' policies cannot be read: %s", namespace, task.exception())

    async def _load(self, namespace: str) -> None:
        known = _Namespace()
        if await self._exists(namespace):
            try:
                topic = await self._service.get_topic(topic_of(namespace), create=False)
            except TopicNotFound:
                log.info("%s: no topic has policies any more", namespace)
            else:
                await _library()
                await self._read_all(topic, known)
        self._namespaces[namespace] = known

    async def _read_all(self, topic: "Topic", known: _Namespace) -> None:
        """First what compaction has kept, then what came after it. Raises PulsarError."""
        ledger = topic.ledger
        at = ledger.first_position
        compacted = None
        with storage_faults_told():
            if topic.compaction is not None:
                compacted = await topic.compaction.compacted()
            if compacted is not None and topic.compaction is not None and topic.compaction.horizon is not None:
                at = ledger.next_position(topic.compaction.horizon)
        if compacted is not None:
            index = 0
            while True:
                try:
                    kept = await compacted.read(index, READ_AT_ONCE, READ_BYTES_AT_ONCE)
                except (LedgerError, MalformedRecord) as error:
                    raise MetadataFault(f"{topic}: what compaction kept cannot be read: {error}") from error
                if not kept:
                    break
                for each in kept:
                    await self._see(topic, known, each.payload, str(each.position))
                index += len(kept)
        while not ledger.is_after_last(at):
            with storage_faults_told():
                run = await ledger.read(at, READ_AT_ONCE, READ_BYTES_AT_ONCE)
            if not run.entries:
                break
            for number, entry in enumerate(run.entries, run.first_entry_id):
                await self._see(topic, known, entry[run.payload_offset :], f"{run.ledger_id}:{number}")
            at = ledger.next_position(Position(run.ledger_id, run.first_entry_id + len(run.entries) - 1))

    async def _see(self, topic: "Topic", known: _Namespace, payload: bytes, place: str) -> None:
        try:
            schema = await self._schema_of(known, topic.name, events.version_of(payload))
            event = events.decode(payload, schema)
        except (MalformedFrame, MalformedRecord) as error:
            log.warning("%s: %s: %s", topic, place, error)
            return
        if event is None:
            return
        if event.policies is None:
            known.held.pop(event.key, None)
        else:
            known.held[event.key] = event.policies

    async def _schema_of(self, known: _Namespace, name: TopicName, version: int) -> events.Schema:
        """Raises MalformedRecord where no such version is registered."""
        if version not in known.schemas:
            stored = await self._service.schemas.registry.version(name.schema_id, version)
            if stored is None:
                raise MalformedRecord(f"its schema's version {version} is not registered")
            known.schemas[version] = _parsed(stored)
        return known.schemas[version]

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(
        self, known: _Namespace, topic: TopicName, policies: dict[str, Any] | None, is_global: bool
    ) -> None:
        """Returns once it is stored. Raises PulsarError."""
        await _library()
        name = topic_of(topic.namespace)
        held = await self._service.get_topic(name, create=True)
        version = await self._writing_version(name)
        schema = await self._schema_of(known, name, version)
        if not self._producer_name:
            self._producer_name = self._service.new_producer_name()
        try:
            payload = events.encode(
                topic,
                policies,
                schema,
                version,
                is_global=is_global,
                cluster=self._service.settings.cluster_name,
                producer_name=self._producer_name,
                sequence_id=self._sequence_id,
                now_ms=self._clock_ms(),
            )
        except ValueError as error:
            raise MetadataFault(str(error)) from error
        self._sequence_id += 1
        stored: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()

        def done(result: AddResult) -> None:
            if not stored.done():
                stored.set_result(result)

        held.ledger.add_entries([payload], done)
        result = await stored
        if result.error is not None:
            with storage_faults_told():
                raise result.error

    async def _writing_version(self, name: TopicName) -> int:
        """The newest registered schema where it has a place for all that we know, so that what a later broker added
        stays; else ours."""
        registry = self._service.schemas.registry
        latest = await registry.latest(name.schema_id)
        if latest is not None and latest.schema.type is SchemaType.AVRO:
            try:
                if policy_names(EVENT_SCHEMA) <= policy_names(json.loads(latest.schema.data)):
                    return latest.version
            except ValueError:
                log.warning("%s: its registered schema is not JSON", name.full)
        ours = Schema(SchemaType.AVRO, EVENT_SCHEMA_TEXT, SCHEMA_PROPERTIES)
        return await registry.put(name.schema_id, ours, CompatibilityStrategy.ALWAYS_COMPATIBLE)


async def _library() -> None:
    """Loads the Avro library, on a thread the first time."""
    if "fastavro" not in sys.modules:
        await asyncio.to_thread(import_module, "fastavro")


def topic_of(namespace: str) -> TopicName:
    return TopicName.parse(f"persistent://{namespace}/{LOCAL_NAME}")


def _parsed(stored: StoredSchema) -> events.Schema:
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
