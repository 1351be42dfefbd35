"""Turns messages that came as JSON into payloads. A payload holds metadata and body of one message or of a batch, in
the form in which the Java client sends it. This module does no I/O.

Sources: ProducerImpl.sendAsync, ProducerHandler.onWebSocketText, BatchMessageContainerImpl.createOpSendMsg,
Commands.serializeSingleMessageInBatchWithPayload.
"""

from collections.abc import Sequence

from magnetar.server.websocket.json_message_rules import (
    I64_MAX,
    NOTHING_RARE,
    MessageFault,
    ProducerMessage,
    RareMembers,
    SocketError,
)
from magnetar.server.websocket.producer_options_rules import ProducerOptions
from pulsar_proto.element_count import check_elements
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress
from pulsar_proto.records.payload import (
    INNOCENT_METADATA_BYTES,
    METADATA_BYTES_MAX,
    METADATA_ELEMENTS_MAX,
    BatchMessage,
    build_batch,
    build_payload,
    metadata_fault,
    plain_payloads,
)

COMPRESSIONS = frozenset(pb.CompressionType.keys())

BATCH_BYTES_MAX = 128 << 10
"""The size in bytes at which a batch is sent (ProducerConfigurationData.batchingMaxBytes)."""

ZLIB_BYTES_MAX = 256 << 10
"""A longer body is not compressed by ZLIB, because that would hold up all clients for more than ten milliseconds."""


def fits_in_batch(message: ProducerMessage) -> bool:
    """Returns whether a message may share a batch with others. A message with a delay or with clusters may not, because
    these hold for a whole entry (ProducerImpl.canAddToBatch)."""
    rare = message.rare
    return not (rare.deliver_at_ms or rare.deliver_after_ms or rare.replication_clusters)


def single_payload(
    message: ProducerMessage,
    options: ProducerOptions,
    producer_name: str,
    sequence_id: int,
    published_ms: int,
    size_max: int,
) -> bytes:
    """Returns the payload of a message that is stored alone. Raises MessageFault for a message that the topic would
    refuse."""
    body, rare = message.payload, message.rare
    is_stored_as_it_is = options.compression == pb.NONE and not options.encryption_keys
    if is_stored_as_it_is and message.key is None and rare is NOTHING_RARE and not message.properties:
        payload = plain_payloads(producer_name, published_ms)(sequence_id, body)
        return _checked(payload, len(body), size_max)
    metadata = pb.MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_id,
        publish_time=published_ms,
        uncompressed_size=len(body),
    )
    for name, value in message.properties.items():
        metadata.properties.add(key=name, value=value)
    if message.key is not None:
        metadata.partition_key = message.key
        metadata.partition_key_b64_encoded = False
    if rare.event_time_ms:
        metadata.event_time = rare.event_time_ms
    if rare.replication_clusters:
        metadata.replicate_to.extend(rare.replication_clusters)
    if rare.deliver_after_ms:
        metadata.deliver_at_time = min(published_ms + rare.deliver_after_ms, I64_MAX)
    elif rare.deliver_at_ms:
        metadata.deliver_at_time = rare.deliver_at_ms
    if options.encryption_keys:
        _describe_encryption(metadata, rare, options)
    elif options.compression != pb.NONE and (options.compression != pb.ZLIB or len(body) <= ZLIB_BYTES_MAX):
        metadata.compression = options.compression
        body = compress(options.compression, body)
    return _checked(build_payload(metadata, body), len(body), size_max)


def batch_entry(message: ProducerMessage, sequence_id: int) -> BatchMessage:
    """Returns a message in the form that it has in a batch. Raises MessageFault when the message is refused."""
    single = pb.SingleMessageMetadata(payload_size=len(message.payload), sequence_id=sequence_id)
    for name, value in message.properties.items():
        single.properties.add(key=name, value=value)
    if message.key is not None:
        single.partition_key = message.key
        single.partition_key_b64_encoded = False
    if message.rare.event_time_ms:
        single.event_time = message.rare.event_time_ms
    size = single.ByteSize()
    if size > INNOCENT_METADATA_BYTES:
        if size > METADATA_BYTES_MAX:
            text = f"Metadata of {size} bytes: a message of a batch may have {METADATA_BYTES_MAX}"
            raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, text)
        try:
            check_elements(single.SerializeToString(), pb.SingleMessageMetadata.DESCRIPTOR, METADATA_ELEMENTS_MAX)
        except MalformedFrame as error:
            raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, str(error)) from None
    return single, message.payload


def batch_payload(
    entries: Sequence[BatchMessage], options: ProducerOptions, producer_name: str, published_ms: int, size_max: int
) -> bytes:
    """Returns the payload of a batch. Raises MessageFault when the batch is refused."""
    plain = build_batch(entries)
    metadata = pb.MessageMetadata(
        producer_name=producer_name,
        sequence_id=entries[0][0].sequence_id,
        highest_sequence_id=entries[-1][0].sequence_id,
        publish_time=published_ms,
        num_messages_in_batch=len(entries),
        uncompressed_size=len(plain),
    )
    if options.compression != pb.NONE:
        metadata.compression = options.compression
        plain = compress(options.compression, plain)
    return _checked(build_payload(metadata, plain), len(plain), size_max)


def _describe_encryption(metadata: pb.MessageMetadata, rare: RareMembers, options: ProducerOptions) -> None:
    """Writes into the metadata how the client encrypted and compressed the body. Raises MessageFault when the message's
    data make no sense."""
    metadata.encryption_keys.extend(options.encryption_keys)
    if rare.encryption_param is not None:
        metadata.encryption_param = rare.encryption_param
    compression = rare.compression_type
    if rare.uncompressed_size is not None and compression is not None:
        if compression not in COMPRESSIONS:
            text = f"Invalid compressionType {compression[:40]}"
            raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, text)
        metadata.compression = pb.CompressionType.Value(compression)
        metadata.uncompressed_size = rare.uncompressed_size
    elif rare.uncompressed_size is not None or compression not in (None, "NONE"):
        text = "the params compressionType and uncompressedMessageSize should both empty or both non-empty"
        raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, text)


def _checked(payload: bytes, body_size: int, size_max: int) -> bytes:
    """Checks that a payload meets the client port's demands on SENDs (`send_groups`), and returns it. Raises
    MessageFault."""
    if body_size > size_max:
        text = f"The message has {body_size} bytes, which exceeds the limit of {size_max} (maxMessageSize)"
        raise MessageFault(SocketError.UNKNOWN_ERROR, text)
    # The metadata is in the part before the body, so it is no longer than this part.
    if len(payload) - body_size > INNOCENT_METADATA_BYTES and (fault := metadata_fault(payload)) is not None:
        raise MessageFault(SocketError.UNKNOWN_ERROR, fault)
    return payload
