"""SEND: the messages of one read go to their producers as one group each.

Sources: ServerCnx.handleSend; Producer.checkAndStartPublish.
"""

import logging
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from pulsar_proto.checksum import crc32c_of
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import INNOCENT_METADATA_BYTES, MAGIC_CRC32C, body, metadata_fault, verify_checksum
from pulsar_proto.wire.commands import send_error_frame
from pulsar_proto.wire.framing import Frame
from pulsar_proto.wire.send_run import end_of_run, parse_sends

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

log = logging.getLogger(__name__)

SHORT_SEND_BYTES = 12
"""A SEND with a message_id or a transaction's id cannot be shorter: type 2, head 2, producer and sequence id 4, and 6
or 4."""

CHECKED_HEAD_BYTES = 10
"""0x0e01 u16 | u32 crc32c | u32 metadataSize: how a payload with a checksum begins."""

BROKER_ENTRY_METADATA = b"\x0e\x02"

CPP_CLIENT = "Pulsar-CPP"
"""How the version of a client that is made of the C++ one begins."""

read_head = Struct(">HII").unpack_from

Sends = list[tuple[pb.CommandSend, bytes]]
Fault = tuple[pb.ServerError.ValueType, str]
"""Why a SEND is refused, as SEND_ERROR says it."""


def publish_run(cnx: "Connection", frames: Sequence[Frame], index: int) -> int:
    """Publishes the SEND at `index` and those that follow it without another command between, as one group for each
    producer. Returns the index of the first frame that is not part of it.

    The cost of a SEND is that of the broker: no object is made for it but its parsed command.
    """
    run = frames[index : end_of_run(frames, index)]
    groups: dict[int, Sends] = {}
    group: Sends = []
    group_id = -1
    size_bytes = 0
    max_size = cnx.traffic.limits.max_message_size
    try:
        for send, (command, payload) in zip(parse_sends([frame[0] for frame in run]), run, strict=True):
            if payload is None:
                raise MalformedFrame("SEND without a payload")
            producer_id = send.producer_id
            if producer_id != group_id:
                if producer_id in groups:
                    group = groups[producer_id]
                elif producer_id in cnx.producers:
                    group = groups[producer_id] = []
                else:
                    group = _late_or_unknown(cnx, producer_id)
                group_id = producer_id
            size = len(payload)
            if size < CHECKED_HEAD_BYTES:
                sound = False
            else:
                magic, stored_crc, metadata_size = read_head(payload)
                sound = (
                    magic == MAGIC_CRC32C
                    and metadata_size <= INNOCENT_METADATA_BYTES
                    and metadata_size + CHECKED_HEAD_BYTES <= size <= max_size
                    and (len(command) < SHORT_SEND_BYTES or _is_usual(command))
                    and crc32c_of(payload[6:]) == stored_crc
                )
            if not sound:
                fault = _fault_of(cnx, send, payload)
                if fault is not None:
                    earlier, earlier_bytes = groups, size_bytes
                    groups, group_id, size_bytes = {}, -1, 0
                    _publish(cnx, earlier, earlier_bytes)
                    _refuse(cnx, send, *fault)
                    continue
            group.append((send, payload))
            size_bytes += size
    finally:
        _publish(cnx, groups, size_bytes)
    return index + len(run)


def _publish(cnx: "Connection", groups: dict[int, Sends], size_bytes: int) -> None:
    count = 0
    for producer_id, sends in groups.items():
        # Publishing for one producer may close another one, when the topic fences itself.
        producer = cnx.producers.get(producer_id)
        if producer is not None and sends:
            producer.publish(sends)
            count += len(sends)
    if count:
        cnx.published(count, size_bytes)


def _late_or_unknown(cnx: "Connection", producer_id: int) -> Sends:
    """A SEND that was under way when the broker closed its producer is dropped: a list that nobody publishes. Any
    other one closes the connection (ServerCnx.handleSend); also while the producer is still being created."""
    if not cnx.recently_closed.contains(producer_id, cnx.traffic.now()):
        raise MalformedFrame(f"SEND of the unknown producer {producer_id}")
    return []


def _is_usual(command: bytes) -> bool:
    """Whether none of the tags of txnid_least_bits, txnid_most_bits and message_id is among the bytes."""
    return b"\x20" not in command and b"\x28" not in command and b"\x4a" not in command


def _fault_of(cnx: "Connection", send: pb.CommandSend, payload: bytes) -> Fault | None:
    """What the short look of `publish_run` left open: why a SEND is refused. Raises MalformedFrame for a payload that
    could not be read back (Producer.verifyChecksum, PersistentTopic.publishMessage)."""
    if payload.startswith(BROKER_ENTRY_METADATA):
        raise MalformedFrame("SEND with broker entry metadata, which only brokers write")
    if not verify_checksum(payload):
        return pb.ChecksumError, "Checksum failed on the broker"
    fault = metadata_fault(payload)
    if fault is not None:
        return pb.NotAllowedError, fault
    content = body(payload)
    if send.HasField("message_id"):
        return pb.NotAllowedError, "Only shadow topic supports sending messages with messageId"
    if send.HasField("txnid_most_bits") or send.HasField("txnid_least_bits"):
        return pb.NotAllowedError, "Transactions are not enabled."
    if len(content) > cnx.traffic.limits.max_message_size:
        return pb.NotAllowedError, "Exceed maximum message size"
    return None


def _refuse(cnx: "Connection", send: pb.CommandSend, code: pb.ServerError.ValueType, text: str) -> None:
    """Answers SEND_ERROR with max(sequence, highest), after the receipts of what the producer sent before.

    C++'s client, and those of Python and Node that are made of it, give up one message for ChecksumError only: after
    any other code they connect anew and send the same message again, for ever (ClientConnection::handleSendError).
    """
    sequence_id = max(send.sequence_id, send.highest_sequence_id)
    log.warning("%s: producer %d: message %d refused: %s", cnx.remote_address, send.producer_id, sequence_id, text)
    if cnx.client_version.startswith(CPP_CLIENT):
        code = pb.ChecksumError
    frame = send_error_frame(send.producer_id, sequence_id, code, text)
    producer = cnx.producers.get(send.producer_id)
    if producer is None:
        cnx.write(frame)
    else:
        producer.refuse(frame)
