"""The system topics with snapshots of transactions, for a server that owns all topics. In a cluster
`magnetar.server.peers.peer_snapshots` takes the place of this module."""

from collections.abc import AsyncIterator, Callable

from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_types import Schema
from magnetar.server.schema.strategies import CompatibilityStrategy
from magnetar.server.topics.policy_event_topics import GetTopic, TopicEventLog
from pulsar_proto.errors import MalformedFrame, MetadataFault
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, build_payload, parse_metadata

SNAPSHOT_BYTES_MAX = 64 << 20
"""The largest snapshot that is read, in uncompressed bytes. A broker writes none beyond the largest message."""


class LocalSnapshotLogs:
    """Finds and loads the topics. Implements `SnapshotLogs`."""

    def __init__(
        self,
        get_topic: GetTopic,
        schemas: SchemaRegistry,
        new_producer_name: Callable[[], str],
        clock_ms: Callable[[], int],
    ) -> None:
        self._get_topic = get_topic
        self._schemas = schemas
        self._new_producer_name = new_producer_name
        self._clock_ms = clock_ms

    async def open(self, name: TopicName, schema: Schema, *, create: bool) -> "LocalSnapshotLog":
        """Raises TopicNotFound when the topic is missing and `create` is not set, and the other errors of
        `BrokerService.get_topic`."""
        await self._get_topic(name, create=create)
        return LocalSnapshotLog(name, schema, self._get_topic, self._schemas, self._new_producer_name(), self._clock_ms)


class LocalSnapshotLog:
    """One of the topics. Implements `SnapshotLog`. All messages after the first `news` are those of `append`."""

    def __init__(
        self,
        name: TopicName,
        schema: Schema,
        get_topic: GetTopic,
        schemas: SchemaRegistry,
        producer_name: str,
        clock_ms: Callable[[], int],
    ) -> None:
        self.is_closed = False
        self._name = name
        self._schema = schema
        self._get_topic = get_topic
        self._schemas = schemas
        self._producer_name = producer_name
        self._clock_ms = clock_ms
        self._is_read = False
        self._sequence_id = 0
        self._schema_version: bytes | None = None

    def close_soon(self) -> None:
        self.is_closed = True

    async def news(self) -> AsyncIterator[tuple[str, bytes | None]]:
        if self._is_read:
            return
        topic = await self._get_topic(self._name, create=True)
        async for place, payload in TopicEventLog(topic).messages():
            try:
                record = _record_of(payload)
            except MalformedFrame as error:
                raise MetadataFault(f"{self._name.full}: message {place} cannot be understood: {error}") from error
            if record is not None:
                yield record
        self._is_read = True

    async def append(self, key: str, value: bytes | None) -> Position:
        topic = await self._get_topic(self._name, create=True)
        if self._schema_version is None:
            version = await self._schemas.put(
                self._name.schema_id, self._schema, CompatibilityStrategy.ALWAYS_COMPATIBLE
            )
            self._schema_version = version.to_bytes(8, "big")
        metadata = pb.MessageMetadata(
            producer_name=self._producer_name,
            sequence_id=self._sequence_id,
            publish_time=self._clock_ms(),
            partition_key=key,
            partition_key_b64_encoded=False,
            uncompressed_size=len(value or b""),
            schema_version=self._schema_version,
        )
        if value is None:
            metadata.null_value = True
        self._sequence_id += 1
        return await TopicEventLog(topic).append(build_payload(metadata, value or b""))


def _record_of(payload: bytes) -> tuple[str, bytes | None] | None:
    """Returns key and content of a message, or None for a message without a key. Raises MalformedFrame."""
    metadata = parse_metadata(payload)
    key = metadata.partition_key
    if not metadata.HasField("partition_key") or metadata.HasField("num_messages_in_batch") or isinstance(key, bytes):
        return None
    if metadata.null_value:
        return key, None
    return key, decompress(metadata.compression, body(payload), metadata.uncompressed_size, SNAPSHOT_BYTES_MAX)
