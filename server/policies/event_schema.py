"""The Avro schema of the events that hold topic policies: the schema of PulsarEvent, as Java's client derives it from
the class.

Fields are sorted by name, and every field that is an object or a boxed value in Java may be null. Sources: PulsarEvent,
TopicPoliciesEvent, TopicPolicies; the schema that a broker of 4.0.7 registered for `__change_events`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from magnetar.server.schema.strategies import STRATEGY_NAMES

EVENTS: Final = "org.apache.pulsar.common.events"
DATA: Final = "org.apache.pulsar.common.policies.data"
IMPL: Final = f"{DATA}.impl"
DISPATCH_RATE: Final = f"{IMPL}.DispatchRateImpl"

SCHEMA_PROPERTIES: Final = {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"}
"""The properties with which Java's broker registers the schema."""

Type = Any
"""A type in Avro's JSON notation."""


class _Required:
    """The type of a field that is a primitive in Java and therefore never null. All other fields become a union with
    null."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def _enum(name: str, *symbols: str, namespace: str = "") -> Type:
    return {"type": "enum", "name": name, **({"namespace": namespace} if namespace else {}), "symbols": list(symbols)}


def _record(name: str, fields: Mapping[str, Type], namespace: str = "") -> Type:
    made: list[dict[str, Any]] = []
    for field, kind in fields.items():
        if isinstance(kind, _Required):
            made.append({"name": field, "type": kind.kind})
        else:
            made.append({"name": field, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": made}


def _array(items: Type, java: str) -> Type:
    return {"type": "array", "items": items, "java-class": f"java.util.{java}"}


def _map(values: Type) -> Type:
    return {"type": "map", "values": values}


_INT, _LONG, _BOOLEAN, _DOUBLE = (_Required(kind) for kind in ("int", "long", "boolean", "double"))

_QUOTA = _record(
    "BacklogQuotaImpl",
    {
        "limit": _LONG,
        "limitSize": "long",
        "limitTime": _INT,
        "policy": _enum(
            "RetentionPolicy",
            "producer_request_hold",
            "producer_exception",
            "consumer_backlog_eviction",
            namespace=f"{DATA}.BacklogQuota",
        ),
    },
    IMPL,
)

_DISPATCH_RATE = _record(
    "DispatchRateImpl",
    {
        "dispatchThrottlingRateInByte": _LONG,
        "dispatchThrottlingRateInMsg": _INT,
        "ratePeriodInSecond": _INT,
        "relativeToPublishRate": _BOOLEAN,
    },
    IMPL,
)

_INACTIVE = _record(
    "InactiveTopicPolicies",
    {
        "deleteWhileInactive": _BOOLEAN,
        "inactiveTopicDeleteMode": _enum(
            "InactiveTopicDeleteMode", "delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"
        ),
        "maxInactiveDurationSeconds": _INT,
    },
)

OFFLOAD_KINDS = {
    "string": (
        "fileSystemProfilePath",
        "fileSystemURI",
        "gcsManagedLedgerOffloadBucket",
        "gcsManagedLedgerOffloadRegion",
        "gcsManagedLedgerOffloadServiceAccountKeyFile",
        "managedLedgerOffloadBucket",
        "managedLedgerOffloadDriver",
        "managedLedgerOffloadRegion",
        "managedLedgerOffloadServiceEndpoint",
        "offloadersDirectory",
        "s3ManagedLedgerOffloadBucket",
        "s3ManagedLedgerOffloadCredentialId",
        "s3ManagedLedgerOffloadCredentialSecret",
        "s3ManagedLedgerOffloadRegion",
        "s3ManagedLedgerOffloadRole",
        "s3ManagedLedgerOffloadRoleSessionName",
        "s3ManagedLedgerOffloadServiceEndpoint",
    ),
    "int": (
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes",
        "gcsManagedLedgerOffloadReadBufferSizeInBytes",
        "managedLedgerOffloadMaxBlockSizeInBytes",
        "managedLedgerOffloadMaxThreads",
        "managedLedgerOffloadPrefetchRounds",
        "managedLedgerOffloadReadBufferSizeInBytes",
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes",
        "s3ManagedLedgerOffloadReadBufferSizeInBytes",
    ),
    "long": (
        "managedLedgerOffloadDeletionLagInMillis",
        "managedLedgerOffloadThresholdInBytes",
        "managedLedgerOffloadThresholdInSeconds",
    ),
}
OFFLOADED_READ_PRIORITIES = ("BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST")
_OFFLOAD_FIELDS: dict[str, Type] = {name: kind for kind, names in OFFLOAD_KINDS.items() for name in names}
_OFFLOAD_FIELDS |= {
    "managedLedgerExtraConfigurations": _map("string"),
    "managedLedgerOffloadedReadPriority": _enum("OffloadedReadPriority", *OFFLOADED_READ_PRIORITIES),
}
_OFFLOAD = _record("OffloadPoliciesImpl", {name: _OFFLOAD_FIELDS[name] for name in sorted(_OFFLOAD_FIELDS)})

_PERSISTENCE = _record(
    "PersistencePolicies",
    {
        "bookkeeperAckQuorum": _INT,
        "bookkeeperEnsemble": _INT,
        "bookkeeperWriteQuorum": _INT,
        "managedLedgerMaxMarkDeleteRate": _DOUBLE,
        "managedLedgerStorageClassName": "string",
    },
)

_STRATEGY = _enum("SchemaCompatibilityStrategy", *STRATEGY_NAMES)

_SUB_TYPE = _enum(
    "SubType",
    "Exclusive",
    "Shared",
    "Failover",
    "Key_Shared",
    namespace="org.apache.pulsar.common.api.proto.CommandSubscribe",
)

_POLICIES = _record(
    "TopicPolicies",
    {
        "autoSubscriptionCreationOverride": _record(
            "AutoSubscriptionCreationOverrideImpl", {"allowAutoSubscriptionCreation": _BOOLEAN}, IMPL
        ),
        "backLogQuotaMap": _map(_QUOTA),
        "compactionThreshold": "long",
        "deduplicationEnabled": "boolean",
        "deduplicationSnapshotIntervalSeconds": "int",
        "delayedDeliveryEnabled": "boolean",
        "delayedDeliveryMaxDelayInMillis": "long",
        "delayedDeliveryTickTimeMillis": "long",
        "dispatchRate": _DISPATCH_RATE,
        "dispatcherPauseOnAckStatePersistentEnabled": "boolean",
        "entryFilters": _record("EntryFilters", {"entryFilterNames": "string"}),
        "inactiveTopicPolicies": _INACTIVE,
        "isGlobal": "boolean",
        "maxConsumerPerTopic": "int",
        "maxConsumersPerSubscription": "int",
        "maxMessageSize": "int",
        "maxProducerPerTopic": "int",
        "maxSubscriptionsPerTopic": "int",
        "maxUnackedMessagesOnConsumer": "int",
        "maxUnackedMessagesOnSubscription": "int",
        "messageTTLInSeconds": "int",
        "offloadPolicies": _OFFLOAD,
        "persistence": _PERSISTENCE,
        "publishRate": _record(
            "PublishRate", {"publishThrottlingRateInByte": _LONG, "publishThrottlingRateInMsg": _INT}
        ),
        "replicationClusters": _array("string", "List"),
        "replicatorDispatchRate": DISPATCH_RATE,
        "retentionPolicies": _record("RetentionPolicies", {"retentionSizeInMB": _LONG, "retentionTimeInMinutes": _INT}),
        "schemaCompatibilityStrategy": _STRATEGY,
        "schemaValidationEnforced": "boolean",
        "shadowTopics": _array("string", "List"),
        "subscribeRate": _record(
            "SubscribeRate", {"ratePeriodInSecond": _INT, "subscribeThrottlingRatePerConsumer": _INT}
        ),
        "subscriptionDispatchRate": DISPATCH_RATE,
        "subscriptionPolicies": _map(_record("SubscriptionPolicies", {"dispatchRate": DISPATCH_RATE})),
        "subscriptionTypesEnabled": _array(_SUB_TYPE, "List"),
    },
    DATA,
)

EVENT_SCHEMA: Final = _record(
    "PulsarEvent",
    {
        "actionType": _enum("ActionType", "INSERT", "DELETE", "UPDATE", "NONE"),
        "eventType": _enum(
            "EventType",
            "TOPIC_POLICY",
            "TRANSACTION_BUFFER_SNAPSHOT",
            "TRANSACTION_BUFFER_SNAPSHOT_SEGMENTS",
            "TRANSACTION_BUFFER_SNAPSHOT_INDEXES",
        ),
        "replicateTo": _array("string", "HashSet"),
        "topicPoliciesEvent": _record(
            "TopicPoliciesEvent",
            {"domain": "string", "namespace": "string", "policies": _POLICIES, "tenant": "string", "topic": "string"},
        ),
    },
    EVENTS,
)

EVENT_SCHEMA_TEXT: Final = json.dumps(EVENT_SCHEMA, separators=(",", ":")).encode()

NEVER_NULL: Final[Mapping[str, Any]] = {
    "backLogQuotaMap": {},
    "subscriptionPolicies": {},
    "subscriptionTypesEnabled": [],
}
"""Field -> value, for the fields that are set in a new TopicPolicies object in Java. An event must not leave these
fields null."""


def policy_names(schema: Mapping[str, Any]) -> frozenset[str]:
    """Returns the names of the fields of TopicPolicies in a schema of PulsarEvent, or an empty set when `schema` is no
    schema of PulsarEvent."""
    event = _member(schema, "topicPoliciesEvent")
    policies = _member(event, "policies") if event else None
    return frozenset(field["name"] for field in policies["fields"]) if policies else frozenset()


def _member(record: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Returns the named type within the union that is the type of the record's field `name`, or None when the field has
    no such type."""
    for field in record.get("fields", ()):
        if field["name"] == name and isinstance(field["type"], list):
            return next((each for each in field["type"] if isinstance(each, dict)), None)
    return None
