"""The configuration keys that this server honours: Java's name, kind, range and unit of each.

A key sets the field of the same name in snake_case (`maxMessageSize` sets `max_message_size`), or the fields that its
row names, in whichever settings class has them. The defaults stand in those classes. The ranges are ours: Java checks
few of its keys.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from magnetar.server.schema.strategies import STRATEGY_NAMES

MAX_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""
MAX_LONG = 10**18 - 1
"""The largest value of keys that count bytes or the like. It is more than any disk holds, and fits a Java Long."""
MAX_FRAME_BYTES = 1 << 30
DAY_SECONDS = 86_400
YEAR_MINUTES = 366 * 24 * 60
TEBIBYTE = 1 << 40

Value = int | float | bool | str | tuple[str, ...]

PORT_OFF = -1
"""The port number that stands for "no port": nobody listens."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


def snake_case(name: str) -> str:
    """`journalMaxSizeMB` → `journal_max_size_mb`."""
    return _WORD_START.sub("_", name).lower()


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `parse` makes a value of the text that was given, or raises ValueError; `expected` says in words which
    texts it takes."""

    name: str
    fields: tuple[str, ...]
    parse: Callable[[str], Value]
    expected: str
    empty: Value | None = None
    """The value of a key that is set to nothing. None means that such a key keeps its default."""
    is_secret: bool = False
    """The value is never printed."""


def whole(name: str, least: int, most: int, unit: str = "", fields: tuple[str, ...] = ()) -> Key:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    of_unit = f" of {unit}" if unit else ""
    return Key(name, fields or (snake_case(name),), parse, f"a whole number{of_unit} from {least} to {most}")


def number(name: str, least: float, most: float, unit: str = "", fields: tuple[str, ...] = ()) -> Key:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
            raise ValueError(text)
        if not least <= float(text) <= most:
            raise ValueError(text)
        return float(text)

    of_unit = f" of {unit}" if unit else ""
    return Key(name, fields or (snake_case(name),), parse, f"a number{of_unit} from {least:g} to {most:g}")


def switch(name: str) -> Key:
    def parse(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    return Key(name, (snake_case(name),), parse, "true or false")


def text(name: str, pattern: str, expected: str) -> Key:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return Key(name, (snake_case(name),), parse, expected)


def choice(name: str, *choices: str) -> Key:
    return text(name, "|".join(choices), f"one of {', '.join(choices)}")


def port(name: str) -> Key:
    """Returns the key of a port. Set to nothing, it means that there is no such port, as in Apache's broker."""
    return replace(whole(name, 0, 65_535), empty=PORT_OFF)


def any_text(name: str, *, is_secret: bool = False) -> Key:
    return Key(name, (snake_case(name),), str, "a text", is_secret=is_secret)


def names(name: str) -> Key:
    def parse(text: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in text.split(",") if item.strip())

    return Key(name, (snake_case(name),), parse, "a list with commas")


def list_of(name: str, *choices: str) -> Key:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if not set(items) <= set(choices):
            raise ValueError(text)
        return items

    return Key(name, (snake_case(name),), parse, f"a list, with commas, of {', '.join(choices)}")


RETENTION_TIME = ("retention_time_minutes", "default_retention_time_in_minutes")
RETENTION_SIZE = ("retention_size_mb", "default_retention_size_in_mb")
"""Retention sets two fields each: the setting of managed ledgers, and the default of the policy."""

_HOST = r"[A-Za-z0-9_.:%\-]+"

SERVER = (
    text("clusterName", r"[-=:.\w]+", "a name of letters, digits and -=:._"),
    port("brokerServicePort"),
    port("brokerServicePortTls"),
    port("webServicePort"),
    port("webServicePortTls"),
    text("bindAddress", _HOST, "a host name or address"),
    text("advertisedAddress", _HOST, "a host name or address"),
    names("advertisedListeners"),
    any_text("internalListenerName"),
)

CONNECTIONS = (
    whole("maxMessageSize", 1, MAX_FRAME_BYTES, "bytes"),
    whole("keepAliveIntervalSeconds", 1, DAY_SECONDS, "seconds"),
    whole("connectionLivenessCheckTimeoutMillis", -1, MAX_INT, "milliseconds"),
    whole("maxPendingPublishRequestsPerConnection", 0, MAX_INT),
    whole("maxMessagePublishBufferSizeInMB", -1, MAX_INT, "MB"),
    whole("maxMessageDispatchBufferSizeInMB", -1, MAX_INT, "MB"),
    whole("maxConcurrentLookupRequest", 1, MAX_INT),
    whole("brokerMaxConnections", 0, MAX_INT),
    whole("brokerMaxConnectionsPerIp", 0, MAX_INT),
    switch("enableBrokerTopicListWatcher"),
    whole("subscriptionPatternMaxLength", 0, 65_536, "characters"),
)

HTTP = (
    whole("maxHttpServerConnections", 1, MAX_INT),
    whole("httpServerAcceptQueueSize", 1, MAX_INT),
    whole("httpMaxRequestHeaderSize", 256, 1 << 20, "bytes"),
    whole("maxConcurrentHttpRequests", 1, MAX_INT),
    switch("webServiceRequestLogEnabled"),
    switch("webSocketServiceEnabled"),
    whole("webSocketMaxTextFrameSize", 1_024, MAX_FRAME_BYTES, "bytes"),
    whole("webSocketSessionIdleTimeoutMillis", -1, MAX_INT, "milliseconds"),
    whole("webSocketPingDurationSeconds", -1, MAX_INT, "seconds"),
    whole("webSocketMaxConnections", 0, MAX_INT),
)

TOPICS = (
    whole("topicLoadTimeoutSeconds", 1, DAY_SECONDS, "seconds"),
    switch("allowAutoTopicCreation"),
    switch("allowAutoSubscriptionCreation"),
    whole("maxProducersPerTopic", 0, MAX_INT),
    whole("maxConsumersPerTopic", 0, MAX_INT),
    whole("maxConsumersPerSubscription", 0, MAX_INT),
    whole("maxSubscriptionsPerTopic", 0, MAX_INT),
    list_of("subscriptionTypesEnabled", "Exclusive", "Shared", "Failover", "Key_Shared"),
    whole("maxUnackedMessagesPerConsumer", 0, MAX_INT),
    whole("maxUnackedMessagesPerSubscription", 0, MAX_INT),
    switch("acknowledgmentAtBatchIndexLevelEnabled"),
    switch("enableNonPersistentTopics"),
    whole("brokerPublisherThrottlingMaxMessageRate", 0, MAX_INT, "messages a second"),
    whole("brokerPublisherThrottlingMaxByteRate", 0, MAX_LONG, "bytes a second"),
    whole("brokerDeduplicationMaxNumberOfProducers", 1, MAX_INT),
    whole("brokerDeduplicationEntriesInterval", 1, MAX_INT, "entries"),
    whole("brokerDeduplicationProducerInactivityTimeoutMinutes", 1, YEAR_MINUTES, "minutes"),
    whole("dispatcherMaxReadBatchSize", 1, MAX_INT, "entries"),
    whole("dispatcherMaxReadSizeBytes", 1, MAX_INT, "bytes"),
    whole("dispatcherMaxRoundRobinBatchSize", 1, MAX_INT, "entries"),
    switch("subscriptionKeySharedUseConsistentHashing"),
    whole("subscriptionKeySharedConsistentHashingReplicaPoints", 1, 10_000, "points"),
    whole("keySharedLookAheadMsgInReplayThresholdPerConsumer", 0, MAX_INT, "entries"),
    whole("keySharedLookAheadMsgInReplayThresholdPerSubscription", 0, MAX_INT, "entries"),
    whole("dispatcherReadFailureBackoffInitialTimeInMs", 1, MAX_INT, "milliseconds"),
    whole("dispatcherReadFailureBackoffMaxTimeInMs", 1, MAX_INT, "milliseconds"),
    whole("activeConsumerFailoverDelayTimeMillis", 0, MAX_INT, "milliseconds"),
    switch("activeConsumerFailoverConsistentHashing"),
    number("messageExpiryCheckIntervalInMinutes", 0.001, YEAR_MINUTES, "minutes"),
    switch("backlogQuotaCheckEnabled"),
    whole("backlogQuotaCheckIntervalInSeconds", 1, MAX_INT, "seconds"),
    number("subscriptionExpiryCheckIntervalInMinutes", 0.001, YEAR_MINUTES, "minutes"),
    whole("brokerDeduplicationSnapshotFrequencyInSeconds", 1, MAX_INT, "seconds"),
)

POLICIES = (
    choice("allowAutoTopicCreationType", "partitioned", "non-partitioned"),
    whole("defaultNumPartitions", 1, MAX_INT),
    whole("maxNumPartitionsPerPartitionedTopic", 0, MAX_INT),
    whole("maxTopicsPerNamespace", 0, MAX_INT),
    whole("defaultNumberOfNamespaceBundles", 1, MAX_INT),
    switch("forceDeleteTenantAllowed"),
    switch("forceDeleteNamespaceAllowed"),
    switch("topicLevelPoliciesEnabled"),
    whole("ttlDurationDefaultInSeconds", 0, MAX_INT, "seconds"),
    whole("subscriptionExpirationTimeMinutes", 0, MAX_INT, "minutes"),
    whole("backlogQuotaDefaultLimitBytes", -1, MAX_LONG, "bytes"),
    number("backlogQuotaDefaultLimitGB", -1, MAX_INT, "GB"),
    whole("backlogQuotaDefaultLimitSecond", -1, MAX_INT, "seconds"),
    choice(
        "backlogQuotaDefaultRetentionPolicy",
        "producer_request_hold",
        "producer_exception",
        "consumer_backlog_eviction",
    ),
    switch("brokerDeleteInactiveTopicsEnabled"),
    choice("brokerDeleteInactiveTopicsMode", "delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
    whole("brokerDeleteInactiveTopicsFrequencySeconds", 1, MAX_INT, "seconds"),
    whole("brokerServiceCompactionMonitorIntervalInSeconds", 1, MAX_INT, "seconds"),
    switch("topicCompactionRetainNullKey"),
    whole("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", 0, MAX_INT, "seconds"),
    whole("brokerServiceCompactionThresholdInBytes", 0, MAX_LONG, "bytes"),
    switch("brokerDeduplicationEnabled"),
    whole("brokerDeduplicationSnapshotIntervalSeconds", 1, MAX_INT, "seconds"),
    switch("delayedDeliveryEnabled"),
    whole("delayedDeliveryTickTimeMillis", 1, MAX_INT, "milliseconds"),
    whole("delayedDeliveryMaxDelayInMillis", 0, MAX_LONG, "milliseconds"),
    switch("encryptionRequireOnProducer"),
    whole("fillAckHolesIntervalSeconds", 0, MAX_INT, "seconds"),
    whole("maxPublishRatePerTopicInMessages", 0, MAX_INT, "messages a second"),
    whole("maxPublishRatePerTopicInBytes", 0, MAX_LONG, "bytes a second"),
    whole("dispatchThrottlingRatePerTopicInMsg", -1, MAX_INT, "messages a second"),
    whole("dispatchThrottlingRatePerTopicInByte", -1, MAX_LONG, "bytes a second"),
    whole("dispatchThrottlingRatePerSubscriptionInMsg", -1, MAX_INT, "messages a second"),
    whole("dispatchThrottlingRatePerSubscriptionInByte", -1, MAX_LONG, "bytes a second"),
    switch("dispatchThrottlingRateRelativeToPublishRate"),
    whole("subscribeThrottlingRatePerConsumer", 0, MAX_INT),
    whole("subscribeRatePeriodPerConsumerInSecond", 1, MAX_INT, "seconds"),
    choice("schemaCompatibilityStrategy", *STRATEGY_NAMES),
    switch("isAllowAutoUpdateSchemaEnabled"),
    switch("isSchemaValidationEnforced"),
)
"""Default policies of topics for which neither the topic nor its namespace sets the policy, and limits for topics and
namespaces."""

SECURITY = (
    switch("authenticationEnabled"),
    names("authenticationProviders"),
    whole("authenticationRefreshCheckSeconds", 1, DAY_SECONDS, "seconds"),
    any_text("anonymousUserRole"),
    switch("authenticateOriginalAuthData"),
    switch("authenticateMetricsEndpoint"),
    switch("authorizationEnabled"),
    any_text("authorizationProvider"),
    switch("authorizationAllowWildcardsMatching"),
    names("superUserRoles"),
    names("proxyRoles"),
    any_text("tokenSecretKey", is_secret=True),
    any_text("tokenPublicKey"),
    text("tokenPublicAlg", "(RS|PS|ES)(256|384|512)", "RS256, RS384, RS512, PS…, or ES…"),
    any_text("tokenAuthClaim"),
    any_text("tokenAudienceClaim"),
    any_text("tokenAudience"),
    whole("tokenAllowedClockSkewSeconds", 0, DAY_SECONDS, "seconds"),
    any_text("basicAuthConf", is_secret=True),
    any_text("tlsCertificateFilePath"),
    any_text("tlsKeyFilePath"),
    any_text("tlsTrustCertsFilePath"),
    switch("tlsAllowInsecureConnection"),
    switch("tlsRequireTrustedClientCertOnConnect"),
    names("tlsProtocols"),
    names("tlsCiphers"),
    names("webServiceTlsProtocols"),
    names("webServiceTlsCiphers"),
    whole("tlsCertRefreshCheckDurationSec", 0, MAX_INT, "seconds"),
)

MANAGED_LEDGERS = (
    whole("managedLedgerDefaultEnsembleSize", 1, 255, "bookies"),
    whole("managedLedgerDefaultWriteQuorum", 1, 255, "bookies"),
    whole("managedLedgerDefaultAckQuorum", 1, 255, "bookies"),
    whole("managedLedgerMaxEntriesPerLedger", 1, MAX_INT, "entries"),
    whole("managedLedgerMaxSizePerLedgerMbytes", 1, MAX_INT, "MB"),
    whole("managedLedgerMinLedgerRolloverTimeMinutes", 0, YEAR_MINUTES, "minutes"),
    whole("managedLedgerMaxLedgerRolloverTimeMinutes", 1, YEAR_MINUTES, "minutes"),
    whole("managedLedgerInactiveLedgerRolloverTimeSeconds", 0, MAX_INT, "seconds"),
    whole("managedLedgerCursorMaxEntriesPerLedger", 2, MAX_INT, "entries"),
    whole("managedLedgerCursorRolloverTimeInSeconds", 1, MAX_INT, "seconds"),
    number("managedLedgerDefaultMarkDeleteRateLimit", 0, 1_000_000, "writes a second"),
    whole("managedLedgerMaxUnackedRangesToPersist", 0, MAX_INT),
    whole("managedLedgerMaxUnackedRangesToPersistInMetadataStore", 0, MAX_INT),
    whole("managedLedgerMaxBatchDeletedIndexToPersist", 0, MAX_INT),
    switch("managedLedgerPersistIndividualAckAsLongArray"),
    switch("autoSkipNonRecoverableData"),
    whole("managedLedgerCacheSizeMB", 0, MAX_INT, "MB"),
    whole("managedLedgerCacheEvictionTimeThresholdMillis", 1, MAX_INT, "milliseconds"),
    whole("defaultRetentionTimeInMinutes", -1, MAX_INT, "minutes", fields=RETENTION_TIME),
    whole("defaultRetentionSizeInMB", -1, MAX_INT, "MB", fields=RETENTION_SIZE),
    whole("retentionCheckIntervalInSeconds", 1, MAX_INT, "seconds"),
)

BOOKIE = (
    number("journalMaxSizeMB", 1, 1_048_576, "MB"),
    whole("journalMaxBackups", 0, MAX_INT, "files"),
    switch("journalReuseFiles"),
    number("dbStorage_writeCacheMaxSizeMb", 1, 1_048_576, "MB"),
    number("dbStorage_readAheadCacheMaxSizeMb", 1, 1_048_576, "MB"),
    whole("dbStorage_maxThrottleTimeMs", 1, MAX_INT, "milliseconds"),
    whole("maxPendingReadRequestsPerThread", 1, MAX_INT, fields=("max_pending_read_requests",)),
    whole("numReadWorkerThreads", 1, 256, "threads"),
    whole("flushInterval", 1, MAX_INT, "milliseconds"),
    whole("logSizeLimit", 1 << 20, TEBIBYTE, "bytes"),
    whole("gcWaitTime", 1, MAX_INT, "milliseconds"),
    number("minorCompactionThreshold", 0, 1),
    whole("minorCompactionInterval", 1, MAX_INT, "seconds"),
    number("majorCompactionThreshold", 0, 1),
    whole("majorCompactionInterval", 1, MAX_INT, "seconds"),
    whole("compactionRateByBytes", 1, MAX_INT, "bytes a second"),
    whole("diskCheckInterval", 1, MAX_INT, "milliseconds"),
    number("diskUsageThreshold", 0.001, 1),
    number("diskUsageLwmThreshold", 0.001, 1),
    number("diskUsageWarnThreshold", 0.001, 1),
    whole("minUsableSizeForHighPriorityWrites", 1, TEBIBYTE, "bytes"),
    switch("skipDamagedJournal"),
    whole("acceptMetadataGeneration", -1, MAX_LONG),
)

LEDGER_CLIENT = (
    number(
        "bookkeeperClientTimeoutInSeconds",
        0.001,
        DAY_SECONDS,
        "seconds",
        fields=("add_entry_timeout_sec", "read_entry_timeout_sec"),
    ),
    number("addEntryTimeoutSec", 0.001, DAY_SECONDS, "seconds"),
    number("readEntryTimeoutSec", 0.001, DAY_SECONDS, "seconds"),
)

KEYS: dict[str, Key] = {
    key.name: key
    for section in (SERVER, CONNECTIONS, HTTP, SECURITY, TOPICS, POLICIES, MANAGED_LEDGERS, BOOKIE, LEDGER_CLIENT)
    for key in section
}

NOT_ABOVE = (
    ("managedLedgerDefaultAckQuorum", "managedLedgerDefaultWriteQuorum"),
    ("managedLedgerDefaultWriteQuorum", "managedLedgerDefaultEnsembleSize"),
    ("managedLedgerMinLedgerRolloverTimeMinutes", "managedLedgerMaxLedgerRolloverTimeMinutes"),
    ("dispatcherReadFailureBackoffInitialTimeInMs", "dispatcherReadFailureBackoffMaxTimeInMs"),
    ("diskUsageLwmThreshold", "diskUsageThreshold"),
)
"""Pairs of keys: the value of the first must not exceed the value of the second."""

UNSAFE_TO_IGNORE = {
    "tlsEnabledWithKeyStore": "certificates are read from PEM files, not from key stores",
}
"""Switches of protections that do not exist here, with the reason. A configuration that turns one on is refused: nobody
may believe that it is on."""
