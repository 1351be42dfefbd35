"""Handles GET_SCHEMA and GET_OR_CREATE_SCHEMA.

Source: ServerCnx.handleGetSchema, handleGetOrCreateSchema."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.protocol.topic_names import topic_name
from magnetar.server.schema.schema_storage import SchemaStorageFault
from magnetar.server.schema.schema_types import SchemaType, schema_to_command, version_bytes
from pulsar_proto.errors import IncompatibleSchema, MetadataFault, TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import simple_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

VERSION_BYTES = 8
"""The length of a schema version in bytes. Clients before 2.4 send 64 bytes, of which the first 8 are the version."""

FIRST_VERSION_THAT_KEEPS_ANSWERS = 16
"""The first protocol version of clients without this fault: Java clients before 2.8, which speak older versions,
recycle the object that holds a schema's answer as soon as they have read the answer (PulsarDecoder). If the answer
comes before the thread that asked begins to wait for it, the thread finds the object empty and keeps that empty schema
(apache/pulsar issue 8429). This happened to the published Spark connector 2.4.2 with one answer of 700."""
ANSWER_DELAY_S = 0.05
"""The delay of the answer to clients whose version is below FIRST_VERSION_THAT_KEEPS_ANSWERS. After the delay the
thread that asked already waits for the answer. Clients ask once for each version of a schema, so the delay does not add
up."""


def get_schema(cnx: "Connection", command: pb.CommandGetSchema) -> Coroutine[Any, Any, None]:
    """Answers with the requested version of a topic's schema, or with the newest version. Raises TopicNotFound when the
    topic has no such schema, or the schema was deleted; IncompatibleSchema for a version of fewer than 8 bytes;
    MetadataFault when the schema cannot be read."""
    name = topic_name(command.topic)
    version: int | None = None
    if command.HasField("schema_version"):
        if not command.schema_version:
            raise IncompatibleSchema("Empty schema version")
        if len(command.schema_version) < VERSION_BYTES:
            raise IncompatibleSchema(f"Schema version of {len(command.schema_version)} bytes")
        version = int.from_bytes(command.schema_version[:VERSION_BYTES], "big", signed=True)
    return _get_schema(cnx, command, name, version)


async def _get_schema(cnx: "Connection", command: pb.CommandGetSchema, name: TopicName, version: int | None) -> None:
    await _let_it_listen(cnx)
    registry = cnx.broker.service.schemas.registry
    try:
        stored = await (
            registry.latest(name.schema_id) if version is None else registry.version(name.schema_id, version)
        )
    except SchemaStorageFault as error:
        raise MetadataFault(str(error)) from error
    if stored is None:
        raise TopicNotFound(f"Topic not found or no-schema {command.topic}")
    answer = pb.CommandGetSchemaResponse(
        request_id=command.request_id,
        schema=schema_to_command(name.schema_id, stored.schema),
        schema_version=version_bytes(stored.version),
    )
    cnx.write(_get_frame(answer))


def refuse_get_schema(command: pb.CommandGetSchema, code: pb.ServerError.ValueType, text: str) -> bytes:
    return _get_frame(pb.CommandGetSchemaResponse(request_id=command.request_id, error_code=code, error_message=text))


def get_or_create_schema(cnx: "Connection", command: pb.CommandGetOrCreateSchema) -> Coroutine[Any, Any, None]:
    """Stores a schema, if it is new and compatible, and answers with its version. A producer sends this command before
    its first message with a schema that differs from the schema of its PRODUCER. Raises TopicNotFound,
    IncompatibleSchema, MetadataFault."""
    return _get_or_create_schema(cnx, command, topic_name(command.topic))


async def _get_or_create_schema(cnx: "Connection", command: pb.CommandGetOrCreateSchema, name: TopicName) -> None:
    await _let_it_listen(cnx)
    service = cnx.broker.service
    try:
        topic = await service.get_topic(name, create=False)
    except TopicNotFound as error:
        raise TopicNotFound(f"Topic not found {command.topic}") from error
    # Unlike in PRODUCER, bytes are no schema here (ServerCnx.handleGetOrCreateSchema).
    schema = None if SchemaType(command.schema.type) is SchemaType.NONE else command.schema
    version = await service.schemas.admit_producer(topic, schema)
    cnx.write(_create_frame(pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id, schema_version=version)))


def refuse_get_or_create_schema(
    command: pb.CommandGetOrCreateSchema, code: pb.ServerError.ValueType, text: str
) -> bytes:
    return _create_frame(
        pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id, error_code=code, error_message=text)
    )


async def _let_it_listen(cnx: "Connection") -> None:
    if cnx.protocol_version < FIRST_VERSION_THAT_KEEPS_ANSWERS:
        await asyncio.sleep(ANSWER_DELAY_S)


def _get_frame(answer: pb.CommandGetSchemaResponse) -> bytes:
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.GET_SCHEMA_RESPONSE, getSchemaResponse=answer))


def _create_frame(answer: pb.CommandGetOrCreateSchemaResponse) -> bytes:
    return simple_frame(
        pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE, getOrCreateSchemaResponse=answer)
    )
