"""Applies the events of one namespace's `__change_events` topic to a table, which holds the current policies of the
namespace's topics. Also keeps the Avro schemas with which events are read and written.

Two services keep topics' policies and have such a table for each namespace: `change_events.py` reads `__change_events`
topics that this broker owns, and `magnetar.server.peers.followed_policies` follows such topics at whichever broker owns
them.
"""

import asyncio
import json
import logging
import sys
from importlib import import_module
from typing import Any

from magnetar.server.policies import policy_events as events
from magnetar.server.policies.event_schema import EVENT_SCHEMA, EVENT_SCHEMA_TEXT, SCHEMA_PROPERTIES, policy_names
from magnetar.server.policies.foreign_schema import check_schema
from magnetar.server.policies.policies import EVENTS_TOPIC
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_types import Schema, SchemaType, StoredSchema
from pulsar_proto.errors import MalformedFrame, MalformedRecord
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)


class EventTable:
    """The current policies of one namespace's topics, and the schemas of the events."""

    def __init__(self, name: TopicName, schemas: SchemaRegistry) -> None:
        """`name` is the topic that holds the events."""
        self.name = name
        self.held: dict[str, dict[str, Any]] = {}
        """Key of an event (`policy_events.key_of`) -> the policies that the last event of that key sets."""
        self._registry = schemas
        self._parsed: dict[int, events.AvroType] = {}
        """Version -> the parsed schema, for the schemas with which events were written."""

    async def apply_payload(self, payload: bytes, place: str) -> None:
        """Decodes and applies the event in a message. `place` is the message's position, for log lines. Skips a message
        that is no event, and logs it if it cannot be decoded."""
        try:
            schema = await self.schema_of(events.version_of(payload))
            event = events.decode(payload, schema)
        except (MalformedFrame, MalformedRecord) as error:
            log.warning("%s: %s: %s", self.name.full, place, error)
            return
        if event is not None:
            self.apply(event)

    async def apply_value(self, key: bytes | None, value: bytes | None, schema_version: bytes, place: str) -> str:
        """Decodes and applies the event in a message with this key and content. Returns the event's key. Returns an
        empty text for a message that is no event; such a message is skipped, and logged if it cannot be decoded."""
        try:
            name = (key or b"").decode()
            if value is None:
                event: events.PolicyEvent | None = events.PolicyEvent(name, None)
            else:
                schema = await self.schema_of(int.from_bytes(schema_version, "big"))
                event = events.decode_value(name, value, schema)
        except (UnicodeDecodeError, MalformedRecord) as error:
            log.warning("%s: %s: %s", self.name.full, place, error)
            return ""
        if event is None or not name:
            return ""
        self.apply(event)
        return name

    def apply(self, event: events.PolicyEvent) -> None:
        """Applies an event, which replaces an earlier event of the same key."""
        if event.policies is None:
            self.held.pop(event.key, None)
        else:
            self.held[event.key] = event.policies

    async def schema_of(self, version: int) -> events.AvroType:
        """Returns the parsed schema of that version. Raises MalformedRecord when no such version is registered, or when
        events must not be decoded with that schema."""
        if version not in self._parsed:
            await import_avro_library()
            stored = await self._registry.version(self.name.schema_id, version)
            if stored is None:
                raise MalformedRecord(f"its schema's version {version} is not registered")
            self._parsed[version] = _parsed(stored)
        return self._parsed[version]

    async def writing_schema(self) -> StoredSchema | Schema:
        """Returns the schema for new events. This is the newest registered schema if that schema has a field for every
        policy that this broker knows, so that the fields of a later broker version stay. Otherwise it is this broker's
        own schema, which the caller may have to register."""
        latest = await self._registry.latest(self.name.schema_id)
        if latest is not None and latest.schema.type is SchemaType.AVRO:
            try:
                if policy_names(EVENT_SCHEMA) <= policy_names(json.loads(latest.schema.data)):
                    return latest
            except ValueError:
                log.warning("%s: its registered schema is not JSON", self.name.full)
        return Schema(SchemaType.AVRO, EVENT_SCHEMA_TEXT, SCHEMA_PROPERTIES)


async def import_avro_library() -> None:
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
