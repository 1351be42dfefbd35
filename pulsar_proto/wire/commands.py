"""Commands of the client protocol: turns bytes into a BaseCommand, and makes the frames that a broker or client sends.

`frame_encoders` makes the frames that a broker sends once per message, and `send_run` parses SENDs. All other
commands are made and parsed here; rules for the fields stand in docs/WIRE_FORMATS.md, "Frames between clients and
brokers".
"""

from struct import Struct

from google.protobuf.message import DecodeError

from pulsar_proto.element_count import INNOCENT_BYTES, check_elements
from pulsar_proto.errors import MalformedFrame, UnknownCommand
from pulsar_proto.ids import NO_REQUEST_ID, Position, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.id_list import ID_LISTS, PORTION_BYTES, is_ack_of_transaction

_SIZES = Struct(">II").pack
_TYPE_FIELD = 1
ID_LIST_BYTES_MAX = 2 * PORTION_BYTES
"""The longest command with a list of message ids that is parsed as a whole, in bytes. A longer command comes cut into
portions (`id_list`)."""

# The number of a command in BaseCommand.Type is the number of its field (PulsarApi.proto). PING and PONG carry nothing,
# so a missing field does no harm there.
_FIELD_OF_TYPE = {
    field.number: field.name
    for field in pb.BaseCommand.DESCRIPTOR.fields
    if field.number not in (_TYPE_FIELD, pb.BaseCommand.PING, pb.BaseCommand.PONG)
}

_new_command = pb.BaseCommand.FromString


def _begin(data: bytes) -> str:
    """Returns, for an error's text, the bytes that hold a sound command's type. The bytes after the type may be
    credentials, so they are not shown."""
    return data[:2].hex()


def parse_command(data: bytes) -> pb.BaseCommand:
    """Parses a command. The result has all its required fields and the field that its type names.

    Raises UnknownCommand for a type of a later version. Raises MalformedFrame for bytes that do not decode, lack a
    required field or have too many elements: the connection is then closed without an ERROR frame
    (PulsarDecoder.channelRead). Before this call, the caller has to cut a long list of message ids with `cut_id_list`.
    """
    if len(data) > INNOCENT_BYTES and not _is_bounded_id_list(data):
        check_elements(data, pb.BaseCommand.DESCRIPTOR)
    try:
        command = _new_command(data)
    except DecodeError as error:
        raise MalformedFrame(f"command of {len(data)} bytes that begins with {_begin(data)} does not decode") from error
    if not command.IsInitialized():
        unknown_type = _unknown_type(command, data)
        if unknown_type is not None:
            raise UnknownCommand(unknown_type)
        raise MalformedFrame(f"command that begins with {_begin(data)} lacks a required field")
    field = _FIELD_OF_TYPE.get(command.type)
    if field is not None and not command.HasField(field):  # type: ignore[arg-type]
        raise MalformedFrame(f"command of type {command.type} has no field {field}")
    return command


def _is_bounded_id_list(data: bytes) -> bool:
    """Returns whether a command is a list of ids that is parsed quickly, however many elements it has."""
    return data.startswith(ID_LISTS) and (len(data) <= ID_LIST_BYTES_MAX or is_ack_of_transaction(data))


def _unknown_type(command: pb.BaseCommand, data: bytes) -> int | None:
    """Returns the number of the command's type when protobuf does not know that type, otherwise None.

    Protobuf counts an enum field with an unknown value as missing, so the number is read from the bytes.
    """
    if command.HasField("type") or data[:1] != b"\x08":
        return None
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[1:], strict=False):
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    return None


def simple_frame(command: pb.BaseCommand) -> bytes:
    """Makes a frame without payload."""
    body = command.SerializeToString()
    return _SIZES(len(body) + 4, len(body)) + body


def send_frame(send: pb.CommandSend, payload: bytes) -> bytes:
    """Makes a client's SEND frame; `payload` is the result of `payload.build_payload`."""
    body = pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString()
    return b"".join((_SIZES(len(body) + 4 + len(payload), len(body)), body, payload))


_PING = simple_frame(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))
_PONG = simple_frame(pb.BaseCommand(type=pb.BaseCommand.PONG, pong=pb.CommandPong()))


def ping_frame() -> bytes:
    return _PING


def pong_frame() -> bytes:
    return _PONG


def connected_frame(
    server_version: str, protocol_version: int, max_message_size: int, feature_flags: pb.FeatureFlags
) -> bytes:
    """Makes a CONNECTED frame. Clients fail without a server version. `max_message_size` is in bytes."""
    connected = pb.CommandConnected(
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_size,
        feature_flags=feature_flags,
    )
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.CONNECTED, connected=connected))


def success_frame(request_id: int) -> bytes:
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.SUCCESS, success=pb.CommandSuccess(request_id=request_id)))


def error_frame(request_id: int, code: pb.ServerError.ValueType, message: str) -> bytes:
    """Makes an ERROR frame. `request_id` is NO_REQUEST_ID when CONNECT is refused."""
    error = pb.CommandError(request_id=request_id, error=code, message=message)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.ERROR, error=error))


def producer_success_frame(
    request_id: int,
    producer_name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    producer_ready: bool = True,
) -> bytes:
    """Makes a PRODUCER_SUCCESS frame.

    `schema_version` has 8 bytes, big-endian, or is empty. When `producer_ready` is False, the client waits for a second
    PRODUCER_SUCCESS of the same request.
    """
    success = pb.CommandProducerSuccess(
        request_id=request_id,
        producer_name=producer_name,
        last_sequence_id=last_sequence_id,
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=producer_ready,
    )
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS, producer_success=success))


def send_error_frame(producer_id: int, sequence_id: int, code: pb.ServerError.ValueType, message: str) -> bytes:
    """Makes a SEND_ERROR frame. Any code but ChecksumError makes a C++ client drop its connection
    (ClientConnection::handleSendError)."""
    error = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence_id, error=code, message=message)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.SEND_ERROR, send_error=error))


def close_producer_frame(producer_id: int, request_id: int = NO_REQUEST_ID) -> bytes:
    close = pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.CLOSE_PRODUCER, close_producer=close))


def close_consumer_frame(consumer_id: int, request_id: int = NO_REQUEST_ID) -> bytes:
    close = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.CLOSE_CONSUMER, close_consumer=close))


def active_consumer_change_frame(consumer_id: int, is_active: bool) -> bytes:
    """Makes an ACTIVE_CONSUMER_CHANGE frame, for consumers of Failover subscriptions whose client has protocol 12 or
    later."""
    change = pb.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.ACTIVE_CONSUMER_CHANGE, active_consumer_change=change))


def reached_end_of_topic_frame(consumer_id: int) -> bytes:
    end = pb.CommandReachedEndOfTopic(consumer_id=consumer_id)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.REACHED_END_OF_TOPIC, reachedEndOfTopic=end))


def ack_refused_frame(consumer_id: int, request_id: int, code: pb.ServerError.ValueType, message: str) -> bytes:
    """Makes an ACK_RESPONSE frame with an error, the answer to an ACK that had a request id."""
    response = pb.CommandAckResponse(consumer_id=consumer_id, request_id=request_id, error=code, message=message)
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.ACK_RESPONSE, ackResponse=response))


def partitions_frame(request_id: int, partitions: int) -> bytes:
    """Makes a PARTITIONED_METADATA_RESPONSE. 0 partitions stand for a topic that is not partitioned, or for a missing
    topic that would be created unpartitioned."""
    response = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        partitions=partitions,
        response=pb.CommandPartitionedTopicMetadataResponse.Success,
    )
    return _partitions(response)


def partitions_failed_frame(request_id: int, code: pb.ServerError.ValueType, message: str) -> bytes:
    response = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id,
        response=pb.CommandPartitionedTopicMetadataResponse.Failed,
        error=code,
        message=message,
    )
    return _partitions(response)


def _partitions(response: pb.CommandPartitionedTopicMetadataResponse) -> bytes:
    kind = pb.BaseCommand.PARTITIONED_METADATA_RESPONSE
    return simple_frame(pb.BaseCommand(type=kind, partitionMetadataResponse=response))


def lookup_connect_frame(
    request_id: int, service_url: str, service_url_tls: str | None = None, *, through_service_url: bool = False
) -> bytes:
    """Makes a LOOKUP_RESPONSE that names the topic's owner.

    With `through_service_url` the client stays on the address that it dialled, although the owner has another address:
    Apache's standalone gives this answer when it advertises a loopback address, and forwarded ports depend on it.
    """
    response = pb.CommandLookupTopicResponse(
        brokerServiceUrl=service_url,
        brokerServiceUrlTls=service_url_tls,
        response=pb.CommandLookupTopicResponse.Connect,
        request_id=request_id,
        authoritative=True,
        proxy_through_service_url=through_service_url,
    )
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=response))


def lookup_redirect_frame(
    request_id: int, service_url: str, service_url_tls: str | None = None, *, authoritative: bool
) -> bytes:
    """Makes a LOOKUP_RESPONSE that tells the client to ask another broker. The client's next lookup then carries the
    given `authoritative`."""
    response = pb.CommandLookupTopicResponse(
        brokerServiceUrl=service_url,
        brokerServiceUrlTls=service_url_tls,
        response=pb.CommandLookupTopicResponse.Redirect,
        request_id=request_id,
        authoritative=authoritative,
        proxy_through_service_url=False,
    )
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=response))


def lookup_failed_frame(request_id: int, code: pb.ServerError.ValueType, message: str) -> bytes:
    response = pb.CommandLookupTopicResponse(
        response=pb.CommandLookupTopicResponse.Failed, request_id=request_id, error=code, message=message
    )
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse=response))


def last_message_id_frame(
    request_id: int, last: Position, partition: int, batch_index: int, mark_delete: Position
) -> bytes:
    """Makes a GET_LAST_MESSAGE_ID_RESPONSE.

    `batch_index` is -1 unless the last entry is a batch. `last` is (-1, -1) for an empty topic.
    """
    response = pb.CommandGetLastMessageIdResponse(
        last_message_id=pb.MessageIdData(
            ledgerId=unsigned64(last.ledger_id),
            entryId=unsigned64(last.entry_id),
            partition=partition,
            batch_index=batch_index,
        ),
        request_id=request_id,
        consumer_mark_delete_position=pb.MessageIdData(
            ledgerId=unsigned64(mark_delete.ledger_id), entryId=unsigned64(mark_delete.entry_id)
        ),
    )
    kind = pb.BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE
    return simple_frame(pb.BaseCommand(type=kind, getLastMessageIdResponse=response))
