"""Checks and adds the schemas of a topic's producers and consumers, as the topic's policies say.

Sources: ServerCnx.handleProducer, tryAddSchema, handleSubscribe; AbstractTopic.addSchema;
PersistentTopic.addSchemaIfIdleOrCheckCompatible, 4.0.7.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaStorageFault
from magnetar.server.schema.schema_types import (
    InvalidSchema,
    Schema,
    SchemaConflict,
    SchemaType,
    schema_of_command,
    version_bytes,
)
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.errors import IncompatibleSchema, MetadataFault
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

NO_SCHEMA = b""
"""The schema version of a producer without a schema."""

_EXCEPTION = "org.apache.pulsar.broker.service.schema.exceptions."
SCHEMA_NEEDED = (
    "Producers cannot connect or send message without a schema to topics with a schemawhen SchemaValidationEnforced "
    "is enabled"
)
"""The text of Apache's broker, unchanged."""


class TopicWithSchema(Protocol):
    """The checks of a topic's schemas use the topic through this interface."""

    @property
    def name(self) -> TopicName: ...

    @property
    def policies(self) -> EffectivePolicies: ...

    @property
    def producers(self) -> Mapping[str, object]: ...

    @property
    def consumers_with_schema(self) -> int:
        """How many connected consumers have a schema of their own. Consumers that take any schema (AUTO_CONSUME) do not
        count."""

    @property
    def stored_bytes(self) -> int:
        """The size of the stored messages, in bytes."""


class TopicSchemas:
    """Checks, adds and deletes the schemas of topics. One object serves the whole process."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry

    async def admit_producer(self, topic: TopicWithSchema, schema: pb.Schema | None, user: str = "") -> bytes:
        """Returns the schema version for the messages of a producer with that schema. A new schema is added if the
        policies allow it. A schema of plain bytes is treated like any other schema: the Go client sends such a schema
        and asks for its version, although other clients send no schema for plain bytes. Raises IncompatibleSchema when
        the schema is refused, and MetadataFault when the schemas cannot be read or stored."""
        definition = None if schema is None else schema_of_command(schema, user)
        if definition is None or definition.type is SchemaType.AUTO_CONSUME:
            await self._check_may_lack(topic)
            return NO_SCHEMA
        with _told_to_producers():
            return version_bytes(await self._put(topic, definition))

    async def admit_consumer(self, topic: TopicWithSchema, schema: pb.Schema | None, user: str = "") -> None:
        """Adds the consumer's schema to an unused topic; on any other topic, checks that the consumer can read the
        topic's schemas. Raises IncompatibleSchema when the schema is refused, and MetadataFault when the schemas cannot
        be read or stored."""
        definition = None if schema is None else schema_of_command(schema, user)
        if definition is None or definition.type is SchemaType.AUTO_CONSUME:
            return
        with _told_to_consumers():
            has_schema = await self.registry.has_schema(topic.name.schema_id)
            if not (has_schema or topic.producers or topic.consumers_with_schema or topic.stored_bytes):
                await self._put(topic, definition)
                return
            strategy = CompatibilityStrategy(topic.policies.schema_compatibility_strategy)
            if not has_schema and strategy is not CompatibilityStrategy.ALWAYS_COMPATIBLE:
                raise SchemaConflict(
                    "Failed to add schema to an active topic with empty(BYTES) schema: new schema type "
                    f"{definition.type.name}"
                )
            await self.registry.check_consumer(topic.name.schema_id, definition, strategy)

    async def ledgers(self, name: TopicName) -> list[dict[str, object]]:
        """Returns the ledgers of a topic's schemas, as internalStats shows them. Raises MetadataFault when the metadata
        or a ledger cannot be read."""
        with _storage_told():
            found = await self.registry.ledgers(name.schema_id)
        rest = {"offloaded": False, "underReplicated": False}
        return [{"ledgerId": ledger, "entries": entries, "size": size, **rest} for ledger, entries, size in found]

    async def delete(self, name: TopicName) -> None:
        """Deletes the schemas of a topic that is deleted. Not called for a partition, because all partitions share the
        schemas of the partitioned topic. Raises MetadataFault when the deletion fails."""
        with _storage_told():
            await self.registry.delete_storage(name.schema_id)

    async def _put(self, topic: TopicWithSchema, schema: Schema) -> int:
        policies = topic.policies
        strategy = CompatibilityStrategy(policies.schema_compatibility_strategy)
        may_add = policies.is_allow_auto_update_schema
        return await self.registry.put(topic.name.schema_id, schema, strategy, may_add=may_add)

    async def _check_may_lack(self, topic: TopicWithSchema) -> None:
        if not topic.policies.schema_validation_enforced:
            return
        with _told_to_producers():
            if await self.registry.has_schema(topic.name.schema_id):
                raise SchemaConflict(SCHEMA_NEEDED)


@contextmanager
def _told_to_producers() -> Iterator[None]:
    """Turns schema faults into the errors that answer PRODUCER and GET_OR_CREATE_SCHEMA, which carry the names of
    Java's exceptions."""
    with _storage_told():
        try:
            yield
        except (SchemaConflict, InvalidSchema) as error:
            kind = "IncompatibleSchema" if isinstance(error, SchemaConflict) else "InvalidSchemaData"
            text = f"{_EXCEPTION}{kind}Exception: {error}"
            raise IncompatibleSchema(f"{text} caused by {text}") from error


@contextmanager
def _told_to_consumers() -> Iterator[None]:
    with _storage_told():
        try:
            yield
        except (SchemaConflict, InvalidSchema) as error:
            raise IncompatibleSchema(str(error)) from error


@contextmanager
def _storage_told() -> Iterator[None]:
    try:
        yield
    except SchemaStorageFault as error:
        raise MetadataFault(str(error)) from error
