"""Shows one message as JSON: its head, and its value as far as it is decoded."""

import base64
from typing import Any

from magnetar.server.browsing.entry_messages import StoredMessage
from magnetar.server.browsing.schema_decoders import Reading, Value, as_bytes, guessed
from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.text import shown

MARKERS = {
    10: "REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST",
    11: "REPLICATED_SUBSCRIPTION_SNAPSHOT_RESPONSE",
    12: "REPLICATED_SUBSCRIPTION_SNAPSHOT",
    13: "REPLICATED_SUBSCRIPTION_UPDATE",
    21: "TXN_COMMIT",
    22: "TXN_ABORT",
}
"""The entries that brokers write for brokers. Source: MarkerType in PulsarMarkers.proto."""

VALUE_BYTES_MAX = 32 << 10
"""A larger value is not decoded; its beginning is shown. Parsing more at once would keep messages waiting."""


def value_json(message: StoredMessage, reading: Reading) -> dict[str, Any]:
    """Returns `{"kind": json|text|bytes|none, "content": …}`; with `truncated` only the beginning of the value is
    there, with `fault` the value is shown as well as it could be, and the fault says why it is not decoded."""
    if message.own.null_value:
        return {"kind": "none", "content": None}
    fault = message.fault or reading.fault
    shown_part = message.body[:VALUE_BYTES_MAX]
    if len(shown_part) < len(message.body):
        return {**_told(guessed_start(shown_part)), "truncated": True, **({"fault": fault} if fault else {})}
    if message.metadata.encryption_keys:
        return _told(as_bytes(message.body))
    if not fault and reading.decode is not None:
        try:
            return _told(reading.decode(message))
        except (ValueError, RecursionError) as error:
            fault = f"The value does not fit the schema version {reading.version}: {error}"
    return {**_told(guessed(message.body)), **({"fault": fault} if fault else {})}


def guessed_start(start: bytes) -> Value:
    """Shows the beginning of a value: as text if it is text, however the last character is cut."""
    for cut in range(4):
        kind, content = guessed(start[: len(start) - cut])
        if kind == "text":
            return kind, content
    return as_bytes(start)


def head_json(message: StoredMessage, reading: Reading) -> dict[str, Any]:
    """Returns everything about a message but its value. What a message does not have is left out."""
    metadata, single, own = message.metadata, message.single, message.own
    position = message.position
    known = {
        "id": str(position) if single is None else f"{position}:{message.batch_index}",
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "batchIndex": None if single is None else message.batch_index,
        "batchSize": None if single is None else metadata.num_messages_in_batch,
        "publishTime": metadata.publish_time,
        "eventTime": own.event_time or None,
        "deliverAt": metadata.deliver_at_time or None,
        "producer": shown(metadata.producer_name),
        "sequenceId": own.sequence_id,
        "key": message.key,
        "keyBase64": own.partition_key_b64_encoded or None,
        "orderingKey": base64.b64encode(own.ordering_key).decode() if own.HasField("ordering_key") else None,
        "properties": message.properties,
        "size": len(message.body),
        "compression": pb.CompressionType.Name(metadata.compression) if metadata.compression != pb.NONE else None,
        "encrypted": bool(metadata.encryption_keys) or None,
        "schemaVersion": reading.version,
        "schemaType": reading.type_name,
        "nullValue": own.null_value or None,
        "marker": MARKERS.get(metadata.marker_type, str(metadata.marker_type)) if metadata.marker_type else None,
        "transaction": _transaction(metadata),
    }
    return {name: value for name, value in known.items() if value is not None}


def _transaction(metadata: pb.MessageMetadata) -> str | None:
    if not metadata.HasField("txnid_most_bits"):
        return None
    return str(TxnId(metadata.txnid_most_bits, metadata.txnid_least_bits))


def _told(value: Value) -> dict[str, Any]:
    return {"kind": value[0], "content": value[1]}
