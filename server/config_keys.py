"""The configuration keys that this server honours: Java's name, kind, range and unit of each.

A key sets the field of the same name in snake_case (`maxMessageSize` sets `max_message_size`), or the ones that it
names, in whichever settings class has it; defaults stay with these classes. Ranges are ours: Java checks few.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

MAX_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""
MAX_LONG = 10**18 - 1
"""More than any file holds, and what Java's Long takes."""
MAX_FRAME_BYTES = 1 << 30
DAY_SECONDS = 86_400
YEAR_MINUTES = 366 * 24 * 60
TEBIBYTE = 1 << 40

Value = int | float | bool | str | tuple[str, ...]

PORT_OFF = -1
"""A port on which nobody listens."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


def snake_case(name: str) -> str:
    """`journalMaxSizeMB` → `journal_max_size_mb`."""
    return _WORD_START.sub("_", name).lower()


@dataclass(frozen=True, slots=True)
class Key:
    """`parse` makes the value of a text or raises ValueError; `expected` says in words what it takes."""

    name: str
    fields: tuple[str, ...]
    parse: Callable[[str], Value]
    expected: str
    empty: Value | None = None
    """What a key that is set to nothing means; None: its default."""
    is_secret: bool = False
    """The value is never printed."""


def _whole(name: str, least: int, most: int, unit: str = "", fields: tuple[str, ...] = ()) -> Key:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    of_unit = f" of {unit}" if unit else ""
    return Key(name, fields or (snake_case(name),), parse, f"a whole number{of_unit} from {least} to {most}")


def _number(name: str, least: float, most: float, unit: str = "", fields: tuple[str, ...] = ()) -> Key:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
            raise ValueError(text)
        if not least <= float(text) <= most:
            raise ValueError(text)
        return float(text)

    of_unit = f" of {unit}" if unit else ""
    return Key(name, fields or (snake_case(name),), parse, f"a number{of_unit} from {least:g} to {most:g}")


def _switch(name: str) -> Key:
    def parse(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    return Key(name, (snake_case(name),), parse, "true or false")


def _text(name: str, pattern: str, expected: str) -> Key:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return Key(name, (snake_case(name),), parse, expected)


def _choice(name: str, *choices: str) -> Key:
    return _text(name, "|".join(choices), f"one of {', '.join(choices)}")


def _port(name: str) -> Key:
    """Set to nothing it means that there is no such port, as in Apache's."""
    return replace(_whole(name, 0, 65_535), empty=PORT_OFF)


def _any_text(name: str, *, is_secret: bool = False) -> Key:
    return Key(name, (snake_case(name),), str, "a text", is_secret=is_secret)


def _names(name: str) -> Key:
    def parse(text: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in text.split(",") if item.strip())

    return Key(name, (snake_case(name),), parse, "a list with commas")


def _list_of(name: str, *choices: str) -> Key:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if not set(items) <= set(choices):
            raise ValueError(text)
        return items

    return Key(name, (snake_case(name),), parse, f"a list, with commas, of {', '.join(choices)}")


RETENTION_TIME = ("retention_time_minutes", "default_retention_time_in_minutes")
RETENTION_SIZE = ("retention_size_mb", "default_retention_size_in_mb")
"""Of managed ledgers, and the default of the policy."""

_HOST = r"[A-Za-z0-9_.:%\-]+"

SERVER = (
    _text("clusterName", r"[-=:.\w]+", "a name of letters, digits and -=:._"),
    _port("brokerServicePort"),
    _port("brokerServicePortTls"),
    _port("webServicePort"),
    _port("webServicePortTls"),
    _text("bindAddress", _HOST, "a host name or address"),
    _text("advertisedAddress", _HOST, "a host name or address"),
)

CONNECTIONS = (
    _whole("maxMessageSize", 1, MAX_FRAME_BYTES, "bytes"),
    _whole("keepAliveIntervalSeconds", 1, DAY_SECONDS, "seconds"),
    _whole("connectionLivenessCheckTimeoutMillis", -1, MAX_INT, "milliseconds"),
    _whole("maxPendingPublishRequestsPerConnection", 0, MAX_INT),
    _whole("maxMessagePublishBufferSizeInMB", -1, MAX_INT, "MB"),
    _whole("maxConcurrentLookupRequest", 1, MAX_INT),
    _whole("brokerMaxConnections", 0, MAX_INT),
    _whole("brokerMaxConnectionsPerIp", 0, MAX_INT),
    _switch("enableBrokerTopicListWatcher"),
    _whole("subscriptionPatternMaxLength", 0, 65_536, "characters"),
)

TOPICS = (
    _whole("topicLoadTimeoutSeconds", 1, DAY_SECONDS, "seconds"),
    _switch("allowAutoTopicCreation"),
    _switch("allowAutoSubscriptionCreation"),
    _whole("maxProducersPerTopic", 0, MAX_INT),
    _whole("maxConsumersPerTopic", 0, MAX_INT),
    _whole("maxConsumersPerSubscription", 0, MAX_INT),
    _whole("maxSubscriptionsPerTopic", 0, MAX_INT),
    _list_of("subscriptionTypesEnabled", "Exclusive", "Shared", "Failover", "Key_Shared"),
    _whole("maxUnackedMessagesPerConsumer", 0, MAX_INT),
    _whole("maxUnackedMessagesPerSubscription", 0, MAX_INT),
    _switch("acknowledgmentAtBatchIndexLevelEnabled"),
    _switch("enableNonPersistentTopics"),
    _whole("brokerPublisherThrottlingMaxMessageRate", 0, MAX_INT, "messages a second"),
    _whole("brokerPublisherThrottlingMaxByteRate", 0, MAX_LONG, "bytes a second"),
    _whole("brokerDeduplicationMaxNumberOfProducers", 1, MAX_INT),
    _whole("brokerDeduplicationEntriesInterval", 1, MAX_INT, "entries"),
    _whole("brokerDeduplicationProducerInactivityTimeoutMinutes", 1, YEAR_MINUTES, "minutes"),
    _whole("dispatcherMaxReadBatchSize", 1, MAX_INT, "entries"),
    _whole("dispatcherMaxReadSizeBytes", 1, MAX_INT, "bytes"),
    _whole("dispatcherMaxRoundRobinBatchSize", 1, MAX_INT, "entries"),
    _switch("subscriptionKeySharedUseConsistentHashing"),
    _whole("subscriptionKeySharedConsistentHashingReplicaPoints", 1, 10_000, "points"),
    _whole("keySharedLookAheadMsgInReplayThresholdPerConsumer", 0, MAX_INT, "entries"),
    _whole("keySharedLookAheadMsgInReplayThresholdPerSubscription", 0, MAX_INT, "entries"),
    _whole("dispatcherReadFailureBackoffInitialTimeInMs", 1, MAX_INT, "milliseconds"),
    _whole("dispatcherReadFailureBackoffMaxTimeInMs", 1, MAX_INT, "milliseconds"),
    _whole("activeConsumerFailoverDelayTimeMillis", 0, MAX_INT, "milliseconds"),
    _switch("activeConsumerFailoverConsistentHashing"),
    _number("messageExpiryCheckIntervalInMinutes", 0.001, YEAR_MINUTES, "minutes"),
    _switch("backlogQuotaCheckEnabled"),
    _whole("backlogQuotaCheckIntervalInSeconds", 1, MAX_INT, "seconds"),
    _number("subscriptionExpiryCheckIntervalInMinutes", 0.001, YEAR_MINUTES, "minutes"),
    _whole("brokerDeduplicationSnapshotFrequencyInSeconds", 1, MAX_INT, "seconds"),
)

POLICIES = (
    _choice("allowAutoTopicCreationType", "partitioned", "non-partitioned"),
    _whole("defaultNumPartitions", 1, MAX_INT),
    _whole("maxNumPartitionsPerPartitionedTopic", 0, MAX_INT),
    _whole("maxTopicsPerNamespace", 0, MAX_INT),
    _whole("defaultNumberOfNamespaceBundles", 1, MAX_INT),
    _switch("forceDeleteTenantAllowed"),
    _switch("forceDeleteNamespaceAllowed"),
    _switch("topicLevelPoliciesEnabled"),
    _whole("ttlDurationDefaultInSeconds", 0, MAX_INT, "seconds"),
    _whole("subscriptionExpirationTimeMinutes", 0, MAX_INT, "minutes"),
    _whole("backlogQuotaDefaultLimitBytes", -1, MAX_LONG, "bytes"),
    _whole("backlogQuotaDefaultLimitGB", -1, MAX_INT, "GB"),
    _whole("backlogQuotaDefaultLimitSecond", -1, MAX_INT, "seconds"),
    _choice(
        "backlogQuotaDefaultRetentionPolicy",
        "producer_request_hold",
        "producer_exception",
        "consumer_backlog_eviction",
    ),
    _switch("brokerDeleteInactiveTopicsEnabled"),
    _choice("brokerDeleteInactiveTopicsMode", "delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
    _whole("brokerDeleteInactiveTopicsFrequencySeconds", 1, MAX_INT, "seconds"),
    _whole("brokerServiceCompactionMonitorIntervalInSeconds", 1, MAX_INT, "seconds"),
    _switch("topicCompactionRetainNullKey"),
    _whole("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", 0, MAX_INT, "seconds"),
    _whole("brokerServiceCompactionThresholdInBytes", 0, MAX_LONG, "bytes"),
    _switch("brokerDeduplicationEnabled"),
    _whole("brokerDeduplicationSnapshotIntervalSeconds", 1, MAX_INT, "seconds"),
    _switch("delayedDeliveryEnabled"),
    _whole("delayedDeliveryTickTimeMillis", 1, MAX_INT, "milliseconds"),
    _whole("delayedDeliveryMaxDelayInMillis", 0, MAX_LONG, "milliseconds"),
    _switch("encryptionRequireOnProducer"),
    _whole("fillAckHolesIntervalSeconds", 0, MAX_INT, "seconds"),
    _whole("maxPublishRatePerTopicInMessages", 0, MAX_INT, "messages a second"),
    _whole("maxPublishRatePerTopicInBytes", 0, MAX_LONG, "bytes a second"),
    _whole("dispatchThrottlingRatePerTopicInMsg", -1, MAX_INT, "messages a second"),
    _whole("dispatchThrottlingRatePerTopicInByte", -1, MAX_LONG, "bytes a second"),
    _whole("dispatchThrottlingRatePerSubscriptionInMsg", -1, MAX_INT, "messages a second"),
    _whole("dispatchThrottlingRatePerSubscriptionInByte", -1, MAX_LONG, "bytes a second"),
    _switch("dispatchThrottlingRateRelativeToPublishRate"),
    _whole("subscribeThrottlingRatePerConsumer", 0, MAX_INT),
    _whole("subscribeRatePeriodPerConsumerInSecond", 1, MAX_INT, "seconds"),
    _choice(
        "schemaCompatibilityStrategy",
        "UNDEFINED",
        "ALWAYS_INCOMPATIBLE",
        "ALWAYS_COMPATIBLE",
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    ),
    _switch("isAllowAutoUpdateSchemaEnabled"),
    _switch("isSchemaValidationEnforced"),
)
"""What holds where neither a topic nor its namespace has a policy of its own, and what namespaces and topics may be."""

SECURITY = (
    _switch("authenticationEnabled"),
    _names("authenticationProviders"),
    _whole("authenticationRefreshCheckSeconds", 1, DAY_SECONDS, "seconds"),
    _any_text("anonymousUserRole"),
    _switch("authenticateOriginalAuthData"),
    _switch("authenticateMetricsEndpoint"),
    _switch("authorizationEnabled"),
    _any_text("authorizationProvider"),
    _switch("authorizationAllowWildcardsMatching"),
    _names("superUserRoles"),
    _names("proxyRoles"),
    _any_text("tokenSecretKey", is_secret=True),
    _any_text("tokenPublicKey"),
    _text("tokenPublicAlg", "(RS|PS|ES)(256|384|512)", "RS256, RS384, RS512, PS…, or ES…"),
    _any_text("tokenAuthClaim"),
    _any_text("tokenAudienceClaim"),
    _any_text("tokenAudience"),
    _whole("tokenAllowedClockSkewSeconds", 0, DAY_SECONDS, "seconds"),
    _any_text("basicAuthConf", is_secret=True),
    _any_text("tlsCertificateFilePath"),
    _any_text("tlsKeyFilePath"),
    _any_text("tlsTrustCertsFilePath"),
    _switch("tlsAllowInsecureConnection"),
    _switch("tlsRequireTrustedClientCertOnConnect"),
    _names("tlsProtocols"),
    _names("tlsCiphers"),
    _names("webServiceTlsProtocols"),
    _names("webServiceTlsCiphers"),
    _whole("tlsCertRefreshCheckDurationSec", 0, MAX_INT, "seconds"),
)

MANAGED_LEDGERS = (
    _whole("managedLedgerDefaultEnsembleSize", 1, 255, "bookies"),
    _whole("managedLedgerDefaultWriteQuorum", 1, 255, "bookies"),
    _whole("managedLedgerDefaultAckQuorum", 1, 255, "bookies"),
    _whole("managedLedgerMaxEntriesPerLedger", 1, MAX_INT, "entries"),
    _whole("managedLedgerMaxSizePerLedgerMbytes", 1, MAX_INT, "MB"),
    _whole("managedLedgerMinLedgerRolloverTimeMinutes", 0, YEAR_MINUTES, "minutes"),
    _whole("managedLedgerMaxLedgerRolloverTimeMinutes", 1, YEAR_MINUTES, "minutes"),
    _whole("managedLedgerInactiveLedgerRolloverTimeSeconds", 0, MAX_INT, "seconds"),
    _whole("managedLedgerCursorMaxEntriesPerLedger", 2, MAX_INT, "entries"),
    _whole("managedLedgerCursorRolloverTimeInSeconds", 1, MAX_INT, "seconds"),
    _number("managedLedgerDefaultMarkDeleteRateLimit", 0, 1_000_000, "writes a second"),
    _whole("managedLedgerMaxUnackedRangesToPersist", 0, MAX_INT),
    _whole("managedLedgerMaxUnackedRangesToPersistInMetadataStore", 0, MAX_INT),
    _whole("managedLedgerMaxBatchDeletedIndexToPersist", 0, MAX_INT),
    _switch("managedLedgerPersistIndividualAckAsLongArray"),
    _whole("managedLedgerCacheSizeMB", 0, MAX_INT, "MB"),
    _whole("managedLedgerCacheEvictionTimeThresholdMillis", 1, MAX_INT, "milliseconds"),
    _whole("defaultRetentionTimeInMinutes", -1, MAX_INT, "minutes", fields=RETENTION_TIME),
    _whole("defaultRetentionSizeInMB", -1, MAX_INT, "MB", fields=RETENTION_SIZE),
    _whole("retentionCheckIntervalInSeconds", 1, MAX_INT, "seconds"),
)

BOOKIE = (
    _number("journalMaxSizeMB", 1, 1_048_576, "MB"),
    _whole("journalMaxBackups", 0, MAX_INT, "files"),
    _number("dbStorage_writeCacheMaxSizeMb", 1, 1_048_576, "MB"),
    _number("dbStorage_readAheadCacheMaxSizeMb", 1, 1_048_576, "MB"),
    _whole("dbStorage_maxThrottleTimeMs", 1, MAX_INT, "milliseconds"),
    _whole("maxPendingReadRequestsPerThread", 1, MAX_INT, fields=("max_pending_read_requests",)),
    _whole("numReadWorkerThreads", 1, 256, "threads"),
    _whole("flushInterval", 1, MAX_INT, "milliseconds"),
    _whole("logSizeLimit", 1 << 20, TEBIBYTE, "bytes"),
    _whole("gcWaitTime", 1, MAX_INT, "milliseconds"),
    _number("minorCompactionThreshold", 0, 1),
    _whole("minorCompactionInterval", 1, MAX_INT, "seconds"),
    _number("majorCompactionThreshold", 0, 1),
    _whole("majorCompactionInterval", 1, MAX_INT, "seconds"),
    _whole("compactionRateByBytes", 1, MAX_INT, "bytes a second"),
    _whole("diskCheckInterval", 1, MAX_INT, "milliseconds"),
    _number("diskUsageThreshold", 0.001, 1),
    _number("diskUsageLwmThreshold", 0.001, 1),
    _number("diskUsageWarnThreshold", 0.001, 1),
    _whole("minUsableSizeForHighPriorityWrites", 1, TEBIBYTE, "bytes"),
    _switch("skipDamagedJournal"),
)

LEDGER_CLIENT = (
    _number(
        "bookkeeperClientTimeoutInSeconds",
        0.001,
        DAY_SECONDS,
        "seconds",
        fields=("add_entry_timeout_sec", "read_entry_timeout_sec"),
    ),
    _number("addEntryTimeoutSec", 0.001, DAY_SECONDS, "seconds"),
    _number("readEntryTimeoutSec", 0.001, DAY_SECONDS, "seconds"),
)

KEYS: dict[str, Key] = {
    key.name: key
    for section in (SERVER, CONNECTIONS, SECURITY, TOPICS, POLICIES, MANAGED_LEDGERS, BOOKIE, LEDGER_CLIENT)
    for key in section
}

NOT_ABOVE = (
    ("managedLedgerDefaultAckQuorum", "managedLedgerDefaultWriteQuorum"),
    ("managedLedgerDefaultWriteQuorum", "managedLedgerDefaultEnsembleSize"),
    ("managedLedgerMinLedgerRolloverTimeMinutes", "managedLedgerMaxLedgerRolloverTimeMinutes"),
    ("dispatcherReadFailureBackoffInitialTimeInMs", "dispatcherReadFailureBackoffMaxTimeInMs"),
    ("diskUsageLwmThreshold", "diskUsageThreshold"),
)
"""The first of each pair must not exceed the second."""

UNSAFE_TO_IGNORE = {
    "tlsEnabledWithKeyStore": "certificates are read from PEM files, not from key stores",
}
"""Switches of features that are missing here and that nobody may believe to be on."""
