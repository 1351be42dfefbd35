"""Writes events about topics' policies to a namespace's topic `__change_events`, which any broker may own."""

from collections.abc import Mapping
from typing import Any

from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_producer import NewMessage, PeerProducer
from magnetar.server.peers.read_window_rules import MessagePlace
from magnetar.server.policies import policy_events as events
from magnetar.server.policies.event_table import EventTable, import_avro_library
from magnetar.server.schema.schema_types import Schema
from pulsar_proto.errors import MetadataFault, PulsarError
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.routing_hash import java_string_hash


class EventsWriter:
    """The producers of one namespace's events, one for each partition that was written to."""

    def __init__(self, client: PeerClient, cluster: str) -> None:
        self._client = client
        self._cluster = cluster
        self._producers: dict[TopicName, PeerProducer] = {}
        self._was_used = False

    async def close_if_unused(self) -> None:
        """Closes the producers if nothing was written since the last call, so that open producers do not prevent a
        deletion of the topic."""
        was_used, self._was_used = self._was_used, False
        if not was_used:
            await self.close()

    async def write(
        self,
        table: EventTable,
        topic: TopicName,
        policies: Mapping[str, Any] | None,
        *,
        is_global: bool,
        deadline_seconds: float,
    ) -> tuple[TopicName, MessagePlace]:
        """Writes the event that sets the topic's policies, or deletes them when `policies` is None. Creates
        `__change_events` if it is missing. Returns the topic or partition that has the event, and the place of the
        event. Raises PulsarError when a broker refuses, and PeerError when a broker cannot be reached."""
        self._was_used = True
        await import_avro_library()
        key = events.key_of(topic, is_global=is_global)
        partitions = await self._client.partitions(table.name)
        # Java's writer leaves the choice of the partition to its producer, so that all events of a key are in one
        # partition.
        target = table.name if partitions == 0 else table.name.partition(java_string_hash(key) % partitions)
        producer = await self._producer(table, target)
        try:
            await producer.attached(deadline_seconds)
            value = await self._value(producer, table, topic, policies, is_global)
            message = NewMessage(value, key, replicate_to=events.replicated_to(self._cluster, is_global=is_global))
            return target, await producer.send(message, deadline_seconds)
        except PulsarError:
            if producer.failure is not None:
                self._producers.pop(target, None)
                await producer.close()
            raise

    async def _value(
        self,
        producer: PeerProducer,
        table: EventTable,
        topic: TopicName,
        policies: Mapping[str, Any] | None,
        is_global: bool,
    ) -> bytes | None:
        if policies is None:
            return None
        schema = await table.schema_of(int.from_bytes(producer.schema_version, "big"))
        try:
            return events.encode_value(topic, policies, schema, is_global=is_global, cluster=self._cluster)
        except ValueError as error:
            raise MetadataFault(str(error)) from error

    async def _producer(self, table: EventTable, target: TopicName) -> PeerProducer:
        known = self._producers.get(target)
        if known is not None and known.failure is None:
            return known
        chosen = await table.writing_schema()
        schema = chosen if isinstance(chosen, Schema) else chosen.schema
        again = self._producers.get(target)
        if again is not None and again.failure is None:
            return again
        made = self._producers[target] = self._client.producer(target, schema=_wire_schema(schema))
        return made

    async def close(self) -> None:
        """Closes the producers. The next event makes new ones."""
        producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            await producer.close()


def _wire_schema(schema: Schema) -> pb.Schema:
    made = pb.Schema(name="PulsarEvent", type=pb.Schema.Avro, schema_data=schema.data)
    for name, value in schema.properties.items():
        made.properties.add(key=name, value=value)
    return made
