"""GET_SCHEMA and GET_OR_CREATE_SCHEMA on a broker that stores no schemas yet.

Source: ServerCnx.handleGetSchema, handleGetOrCreateSchema.
"""

from typing import TYPE_CHECKING

from pulsar_proto.commands import simple_frame
from pulsar_proto.errors import IncompatibleSchema, TopicNotFound
from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.handlers.names import topic_name

if TYPE_CHECKING:
    from server.connection import Connection


def get_schema(cnx: "Connection", command: pb.CommandGetSchema) -> None:
    name = topic_name(command.topic)
    if command.HasField("schema_version") and not command.schema_version:
        raise IncompatibleSchema("Empty schema version")
    raise TopicNotFound(f"Topic not found or no-schema {name.full}")


def refuse_get_schema(command: pb.CommandGetSchema, code: pb.ServerError.ValueType, text: str) -> bytes:
    return simple_frame(
        pb.BaseCommand(
            type=pb.BaseCommand.GET_SCHEMA_RESPONSE,
            getSchemaResponse=pb.CommandGetSchemaResponse(
                request_id=command.request_id, error_code=code, error_message=text
            ),
        )
    )


def get_or_create_schema(cnx: "Connection", command: pb.CommandGetOrCreateSchema) -> None:
    """The empty version is what a topic without schema answers (a capture of 4.0.7 holds it)."""
    name = topic_name(command.topic)
    if cnx.broker.service.loaded(name) is None:
        raise TopicNotFound(f"Topic not found {name.full}")
    cnx.write(_frame(pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id, schema_version=b"")))


def refuse_get_or_create_schema(
    command: pb.CommandGetOrCreateSchema, code: pb.ServerError.ValueType, text: str
) -> bytes:
    return _frame(
        pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id, error_code=code, error_message=text)
    )


def _frame(answer: pb.CommandGetOrCreateSchemaResponse) -> bytes:
    return simple_frame(
        pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE, getOrCreateSchemaResponse=answer)
    )
