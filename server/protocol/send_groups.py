"""Handles SEND: the messages of one read go to their producers, as one group for each producer.

Sources: ServerCnx.handleSend; Producer.checkAndStartPublish.
"""

import logging
from collections.abc import Sequence, Set
from struct import Struct
from typing import TYPE_CHECKING

from magnetar.server.topics.client_connection import CPP_CLIENT
from magnetar.server.topics.publishing.transaction_sends import txn_of
from pulsar_proto.checksum import crc32c_of
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import INNOCENT_METADATA_BYTES, MAGIC_CRC32C, body, metadata_fault, verify_checksum
from pulsar_proto.wire.commands import send_error_frame
from pulsar_proto.wire.framing import Frame
from pulsar_proto.wire.send_run import PlainSend, Send, end_of_run, parse_send, plain_send

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

log = logging.getLogger(__name__)

CHECKED_HEAD_BYTES = 10
"""The length of the beginning of a payload with a checksum: u16 0x0e01 | u32 crc32c | u32 metadataSize."""

BROKER_ENTRY_METADATA = b"\x0e\x02"

read_head = Struct(">HII").unpack_from

Fault = tuple[pb.ServerError.ValueType, str]
"""The reason why a SEND is refused: the code and the text of SEND_ERROR."""


def publish_run(cnx: "Connection", frames: Sequence[Frame], index: int) -> int:
    """Publishes the run of SENDs that begins at `index`, as one group for each producer, and returns the index of the
    first frame after the run. A SEND that is refused is answered after the SENDs before it. Raises MalformedFrame for a
    SEND that closes the connection; the SENDs before it are published.

    The loop of this function runs once for each message. So it makes no object except the parsed command, and looks
    into a payload only once if the payload begins in the usual way:

        0e 01 (u16) | crc32c (u32) | metadata size (u32) | metadata | body
        `read_head` reads these ten bytes in one call    |

    Such a payload is `sound` when its checksum is right, its metadata is too short to hide anything (see
    INNOCENT_METADATA_BYTES), the whole is no longer than a body may be, and its command is a `PlainSend`. Any other
    SEND is not refused, but checked again by `_fault_of`, which is slow and exact. So the short check may be wrong in
    one direction only: it must never call a faulty SEND sound.
    """
    end = end_of_run(frames, index)
    run = frames[index:end]
    groups: dict[int, list[tuple[Send, bytes]]] = {}
    group: list[tuple[Send, bytes]] = []
    group_id = -1
    in_transactions: set[int] = set()
    size_bytes = 0
    max_size = cnx.traffic.limits.max_message_size
    try:
        for command, payload in run:
            plain = plain_send(command)
            send: Send = parse_send(command) if plain is None else plain
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
            if plain is None or size < CHECKED_HEAD_BYTES:
                sound = False
            else:
                magic, stored_crc, metadata_size = read_head(payload)
                sound = (
                    magic == MAGIC_CRC32C
                    and metadata_size <= INNOCENT_METADATA_BYTES
                    and metadata_size + CHECKED_HEAD_BYTES <= size <= max_size
                    and crc32c_of(payload[6:]) == stored_crc
                )
            if not sound:
                fault = _fault_of(cnx, send, payload)
                if fault is not None:
                    earlier, earlier_bytes = groups, size_bytes
                    groups, group_id, size_bytes = {}, -1, 0
                    _publish(cnx, earlier, earlier_bytes, in_transactions)
                    _refuse(cnx, send, *fault)
                    continue
                if txn_of(send) is not None:
                    in_transactions.add(producer_id)
            group.append((send, payload))
            size_bytes += size
    finally:
        _publish(cnx, groups, size_bytes, in_transactions)
    return end


def _publish(
    cnx: "Connection", groups: dict[int, list[tuple[Send, bytes]]], size_bytes: int, in_transactions: Set[int]
) -> None:
    """Publishes each producer's group. `in_transactions` names the producers some of whose SENDs belong to
    transactions."""
    count = 0
    for producer_id, sends in groups.items():
        # Publishing for one producer may have closed this one: a topic that fences itself closes all its producers.
        producer = cnx.producers.get(producer_id)
        if producer is not None and sends:
            if producer_id in in_transactions:
                producer.publish_in_transactions(sends)
            else:
                producer.publish(sends)
            count += len(sends)
    if count:
        cnx.published(count, size_bytes)


def _late_or_unknown(cnx: "Connection", producer_id: int) -> list[tuple[Send, bytes]]:
    """Returns the group for SENDs of a producer id that is not in use. If the broker has just closed that producer, its
    SENDs were under way; these SENDs are dropped, because nobody publishes the returned list. Raises MalformedFrame for
    any other id, also for that of a producer that is still being created (ServerCnx.handleSend)."""
    if not cnx.recently_closed.contains(producer_id, cnx.traffic.now()):
        raise MalformedFrame(f"SEND of the unknown producer {producer_id}")
    return []


def _fault_of(cnx: "Connection", send: Send, payload: bytes) -> Fault | None:
    """Returns why a SEND is refused, or None when it is sound after all. `publish_run` calls this for each SEND that
    its short check did not find sound. Raises MalformedFrame for a payload that could not be read back once it is
    stored (Producer.verifyChecksum, PersistentTopic.publishMessage)."""
    if payload.startswith(BROKER_ENTRY_METADATA):
        raise MalformedFrame("SEND with broker entry metadata, which only brokers write")
    if not verify_checksum(payload):
        return pb.ChecksumError, "Checksum failed on the broker"
    fault = metadata_fault(payload)
    if fault is not None:
        return pb.NotAllowedError, fault
    content = body(payload)
    if not isinstance(send, PlainSend) and send.HasField("message_id"):
        return pb.NotAllowedError, "Only shadow topic supports sending messages with messageId"
    if len(content) > cnx.traffic.limits.max_message_size:
        return pb.NotAllowedError, "Exceed maximum message size"
    return None


def _refuse(cnx: "Connection", send: Send, code: pb.ServerError.ValueType, text: str) -> None:
    """Answers SEND_ERROR with max(sequence id, highest sequence id), after the receipts of the producer's earlier
    SENDs.

    The C++ client, and the Python and Node clients that are made of it, give up the message for ChecksumError only.
    After any other code they connect anew and send the same message again, for ever
    (ClientConnection::handleSendError). So these clients are told ChecksumError, whatever the reason is.
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
