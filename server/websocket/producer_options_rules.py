"""Reads the query parameters of a producer's socket. This module does no I/O.

Defaults are those of Java's ProducerConfigurationData, except that batching is off and a message without a key goes to
one partition, as in ProducerHandler.getProducerBuilder.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from magnetar.server.websocket.json_message_rules import MessageFault, from_base64
from magnetar.server.websocket.query_rules import I32_MAX, I64_MAX, Query, flag, one_of, whole
from magnetar.server.websocket.websocket_path_rules import QueryFault
from pulsar_proto.pb import pulsar_api_pb2 as pb

SINGLE_PARTITION, ROUND_ROBIN, CUSTOM = "SinglePartition", "RoundRobinPartition", "CustomPartition"
JAVA_STRING_HASH, MURMUR = "JavaStringHash", "Murmur3_32Hash"

KEYS_MAX = 32
"""How many encryption keys a producer may have."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options of a producer's socket."""

    producer_name: str = ""
    """The producer's name; empty when the broker is to make a name."""
    initial_sequence_id: int | None = None
    """The last sequence id that the application has used."""
    hashing_scheme: str = JAVA_STRING_HASH
    routing: str = SINGLE_PARTITION
    send_timeout_ms: int = 30_000
    """How long a message may wait for its answer; 0 means that it waits without end."""
    batching: bool = False
    batching_max_messages: int = 1_000
    """How many messages a batch may have; 1 and 0 mean that only bytes and time end a batch
    (BatchMessageContainerBase)."""
    batching_max_delay_ms: int = 1
    max_pending_messages: int = 0
    """How many messages may wait for their answers; one more message is refused. With 0 no message is refused; instead,
    the socket is not read until earlier messages are answered."""
    compression: pb.CompressionType.ValueType = pb.NONE
    encryption_keys: tuple[pb.EncryptionKeys, ...] = ()
    """The keys with which the client itself has encrypted its messages. Such messages get metadata that describe the
    encryption, and are never batched or compressed here."""


def producer_options(query: Query) -> ProducerOptions:
    """Reads the options from the parameters of a query. Raises QueryFault for a value that makes no sense."""
    keys = _encryption_keys(query.get("encryptionKeys", "").strip())
    routing = one_of(query, "messageRoutingMode", (SINGLE_PARTITION, ROUND_ROBIN, CUSTOM), SINGLE_PARTITION)
    compression = one_of(query, "compressionType", pb.CompressionType.keys(), "NONE")
    return ProducerOptions(
        query.get("producerName", ""),
        whole(query, "initialSequenceId", 0, -1, I64_MAX) if "initialSequenceId" in query else None,
        one_of(query, "hashingScheme", (JAVA_STRING_HASH, MURMUR), JAVA_STRING_HASH),
        SINGLE_PARTITION if routing == CUSTOM else routing,
        whole(query, "sendTimeoutMillis", 30_000),
        flag(query, "batchingEnabled") and not keys,
        whole(query, "batchingMaxMessages", 1_000),
        whole(query, "batchingMaxPublishDelay", 1, 1),
        whole(query, "maxPendingMessages", 0, 0, I32_MAX),
        pb.NONE if keys else pb.CompressionType.Value(compression),
        keys,
    )


def _encryption_keys(text: str) -> tuple[pb.EncryptionKeys, ...]:
    """Reads `{"name": {"keyValue": base64, "metadata": {…}}}` in base64, with which a client says how it encrypted its
    messages (ProducerHandler.tryToExtractJsonEncryptionKeys). A text that only names keys is refused: Apache's broker
    reads such keys with a key reader in Java, and encrypts the messages itself."""
    if not text:
        return ()
    try:
        # In a query, an unencoded plus has become a space.
        found = orjson.loads(urlsafe_b64decode(text.replace(" ", "+").replace("+", "-").replace("/", "_")))
    except ValueError:
        raise QueryFault(
            "Invalid encryptionKeys: keys are not read by this server; encrypt in the client and describe the keys as "
            "JSON in base64"
        ) from None
    if type(found) is not dict or not 0 < len(found) <= KEYS_MAX:
        raise QueryFault(f"Invalid encryptionKeys: expected an object of 1 to {KEYS_MAX} keys")
    return tuple(_encryption_key(name.strip(), value) for name, value in found.items())


def _encryption_key(name: str, value: Any) -> pb.EncryptionKeys:
    if not name:
        raise QueryFault("Empty param encryptionKeys.key")
    if type(value) is not dict or type(value.get("keyValue")) is not str:
        raise QueryFault("Empty param encryptionKeys.value.keyValue")
    try:
        key = pb.EncryptionKeys(key=name, value=from_base64(value["keyValue"], "encryptionKeys.value.keyValue"))
    except MessageFault as fault:
        raise QueryFault(str(fault)) from None
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, Mapping) or not all(type(each) is str for each in metadata.values()):
        raise QueryFault("Invalid encryptionKeys.value.metadata: expected an object of texts")
    for name_of_value, text in metadata.items():
        key.metadata.add(key=name_of_value, value=text)
    return key
