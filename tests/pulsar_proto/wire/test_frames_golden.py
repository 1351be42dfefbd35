"""Real frames of Apache's broker and clients: decoded, compared field by field, and encoded again to the same bytes."""

from collections.abc import Iterator

import pytest

from pulsar_proto.ids import Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records import payload
from pulsar_proto.wire import commands
from pulsar_proto.wire.frame_encoders import MessageFramer, ReceiptEncoder, ack_response_frame
from pulsar_proto.wire.framing import FrameReader
from pulsar_proto.wire.send_run import parse_send
from tests.pulsar_proto.vectors import Item, as_described, described, load, unhex

FRAMES = load("pulsar_frames.json")


def cut(frame: bytes) -> tuple[bytes, bytes | None]:
    reader = FrameReader()
    reader.get_buffer()[: len(frame)] = frame
    (only,) = reader.received(len(frame))
    return only


def of_type(*types: str) -> Iterator[tuple[bytes, pb.BaseCommand]]:
    """Gives (whole frame, its command) of the captured frames of these types."""
    found = 0
    for item in FRAMES:
        if item["type"] in types:
            frame = unhex(item["hex"])
            yield frame, commands.parse_command(cut(frame)[0])
            found += 1
    assert found


def test_all_captured_frames_are_cut_from_one_stream_in_reads_of_any_size() -> None:
    stream = b"".join(unhex(item["hex"]) for item in FRAMES)
    for read_size in (1, 7, 1000, 65_536):
        reader = FrameReader()
        frames = []
        for start in range(0, len(stream), read_size):
            piece = stream[start : start + read_size]
            reader.get_buffer()[: len(piece)] = piece
            frames += reader.received(len(piece))
        assert frames == [cut(unhex(item["hex"])) for item in FRAMES]


@pytest.mark.parametrize("item", FRAMES, ids=[f"{n}-{item['from']}-{item['type']}" for n, item in enumerate(FRAMES)])
def test_frame_decodes_as_described_and_encodes_to_the_same_bytes(item: Item) -> None:
    frame = unhex(item["hex"])
    command_bytes, rest = cut(frame)
    command = commands.parse_command(command_bytes)
    assert as_described(command) == described(item["command"])
    if rest is None:
        assert commands.simple_frame(command) == frame
        return
    assert command.SerializeToString() == command_bytes
    _check_payload(item, rest)
    if command.type == pb.BaseCommand.SEND:
        assert parse_send(command_bytes) == command.send
        assert commands.send_frame(command.send, rest) == frame


def _check_payload(item: Item, rest: bytes) -> None:
    assert payload.verify_checksum(rest) is (item["crc32c_ok"] is not False)
    metadata = payload.parse_metadata(rest)
    assert as_described(metadata) == described(item["metadata"])
    assert payload.message_count(rest) == metadata.num_messages_in_batch
    assert payload.publish_time_of(rest) == metadata.publish_time
    entry_metadata = payload.broker_entry_metadata(rest)
    assert (entry_metadata and as_described(entry_metadata)) == item.get("broker_entry_metadata")
    body = payload.body(rest)
    has_checksum = item["crc32c_ok"] is not None
    rebuilt = payload.build_payload(metadata, body, checksum=has_checksum)
    if item["crc32c_ok"] is not False:
        assert rest[payload.skip_broker_entry_metadata(rest) :] == rebuilt
    if metadata.HasField("num_messages_in_batch") and metadata.compression == pb.NONE and "batch" in item:
        messages = payload.split_batch(body, metadata.num_messages_in_batch)
        assert [as_described(single) for single, _ in messages] == [described(each["single"]) for each in item["batch"]]
        assert payload.build_batch(messages) == body


def test_receipts_encoded_by_hand_equal_the_captured_ones() -> None:
    for frame, command in of_type("SEND_RECEIPT"):
        receipt = command.send_receipt
        encoded = ReceiptEncoder(receipt.producer_id).encode(
            receipt.sequence_id, receipt.highest_sequence_id, receipt.message_id.ledgerId, receipt.message_id.entryId
        )
        assert encoded == frame


def test_message_heads_encoded_by_hand_equal_the_captured_ones() -> None:
    for frame, command in of_type("MESSAGE"):
        message = command.message
        rest = cut(frame)[1]
        assert rest is not None
        framer = MessageFramer(message.consumer_id, message.message_id.partition)
        head = framer.head(
            message.message_id.ledgerId,
            message.message_id.entryId,
            len(rest),
            message.redelivery_count,
            list(message.ack_set),
            message.consumer_epoch if message.HasField("consumer_epoch") else None,
        )
        assert head + rest == frame


def test_answers_without_a_payload_equal_the_captured_ones() -> None:
    for frame, command in of_type("SUCCESS"):
        assert commands.success_frame(command.success.request_id) == frame
    for frame, command in of_type("ERROR"):
        error = command.error
        assert commands.error_frame(error.request_id, error.error, error.message) == frame
    for frame, command in of_type("SEND_ERROR"):
        failed = command.send_error
        assert commands.send_error_frame(failed.producer_id, failed.sequence_id, failed.error, failed.message) == frame
    for frame, command in of_type("PING", "PONG"):
        assert (commands.ping_frame() if command.type == pb.BaseCommand.PING else commands.pong_frame()) == frame
    for frame, command in of_type("CONNECTED"):
        hello = command.connected
        assert (
            commands.connected_frame(
                hello.server_version, hello.protocol_version, hello.max_message_size, hello.feature_flags
            )
            == frame
        )


def test_producer_answers_equal_the_captured_ones() -> None:
    for frame, command in of_type("PRODUCER_SUCCESS"):
        success = command.producer_success
        encoded = commands.producer_success_frame(
            success.request_id,
            success.producer_name,
            last_sequence_id=success.last_sequence_id,
            schema_version=success.schema_version,
            topic_epoch=success.topic_epoch if success.HasField("topic_epoch") else None,
            producer_ready=success.producer_ready,
        )
        assert encoded == frame
    for item in FRAMES:
        if item["type"] == "CLOSE_PRODUCER" and item["from"] == "broker":
            assert commands.close_producer_frame(item["command"]["close_producer"]["producer_id"]) == unhex(item["hex"])


def test_consumer_answers_equal_the_captured_ones() -> None:
    for item in FRAMES:
        if item["type"] == "CLOSE_CONSUMER" and item["from"] == "broker":
            assert commands.close_consumer_frame(item["command"]["close_consumer"]["consumer_id"]) == unhex(item["hex"])
    for frame, command in of_type("ACTIVE_CONSUMER_CHANGE"):
        change = command.active_consumer_change
        assert commands.active_consumer_change_frame(change.consumer_id, change.is_active) == frame
    for frame, command in of_type("REACHED_END_OF_TOPIC"):
        assert commands.reached_end_of_topic_frame(command.reachedEndOfTopic.consumer_id) == frame
    for frame, command in of_type("ACK_RESPONSE"):
        assert ack_response_frame(command.ackResponse.consumer_id, command.ackResponse.request_id) == frame
    for frame, command in of_type("GET_LAST_MESSAGE_ID_RESPONSE"):
        last = command.getLastMessageIdResponse
        encoded = commands.last_message_id_frame(
            last.request_id,
            _position(last.last_message_id),
            last.last_message_id.partition,
            last.last_message_id.batch_index,
            _position(last.consumer_mark_delete_position),
        )
        assert encoded == frame


def _position(message_id: pb.MessageIdData) -> Position:
    return Position(signed64(message_id.ledgerId), signed64(message_id.entryId))


def test_lookup_answers_equal_the_captured_ones() -> None:
    for frame, command in of_type("PARTITIONED_METADATA_RESPONSE"):
        answer = command.partitionMetadataResponse
        if answer.response == pb.CommandPartitionedTopicMetadataResponse.Success:
            encoded = commands.partitions_frame(answer.request_id, answer.partitions)
        else:
            encoded = commands.partitions_failed_frame(answer.request_id, answer.error, answer.message)
        assert encoded == frame
    for frame, command in of_type("LOOKUP_RESPONSE"):
        found = command.lookupTopicResponse
        if found.response == pb.CommandLookupTopicResponse.Failed:
            encoded = commands.lookup_failed_frame(found.request_id, found.error, found.message)
        else:
            encoded = commands.lookup_connect_frame(
                found.request_id, found.brokerServiceUrl, through_service_url=found.proxy_through_service_url
            )
        assert encoded == frame
