"""The configuration keys that this server honours: Java's name, kind, range and unit of each.

A key sets the field of the same name in snake_case (`maxMessageSize` sets `max_message_size`), or the fields that its
row names, in whichever settings class has them. The defaults stand in the settings classes. The ranges have no source
in Java, whose broker checks few keys.
"""

from magnetar.server.config.bundle_settings import SPLIT_ALGORITHMS
from magnetar.server.config.key_kinds import (
    DAY_SECONDS,
    MAX_FRAME_BYTES,
    MAX_INT,
    MAX_LONG,
    TEBIBYTE,
    YEAR_MINUTES,
    Key,
    any_text,
    choice,
    list_of,
    names,
    number,
    port,
    switch,
    text,
    whole,
)
from magnetar.server.config.load_keys import LOAD, STANDALONE_LOAD_MANAGER
from magnetar.server.config.transaction_keys import TRANSACTIONS
from magnetar.server.schema.strategies import STRATEGY_NAMES

RETENTION_TIME = ("retention_time_minutes", "default_retention_time_in_minutes")
RETENTION_SIZE = ("retention_size_mb", "default_retention_size_in_mb")
"""The fields that each of the two retention keys sets: the setting of managed ledgers, and the default of the
policy."""

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
    names("bindAddresses"),
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

FAULTS = (switch("faultInjectionEnabled"),)
"""Only a standalone server takes faults."""

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

METRICS = (
    switch("exposeTopicLevelMetricsInPrometheus"),
    switch("exposeConsumerLevelMetricsInPrometheus"),
    switch("exposeProducerLevelMetricsInPrometheus"),
    switch("exposeManagedLedgerMetricsInPrometheus"),
    switch("exposeManagedCursorMetricsInPrometheus"),
    switch("splitTopicAndPartitionLabelInPrometheus"),
    whole("metricsServletTimeoutMs", 0, MAX_INT, "milliseconds"),
    whole("statsUpdateFrequencyInSecs", 1, DAY_SECONDS, "seconds"),
    whole("managedLedgerStatsPeriodSeconds", 1, DAY_SECONDS, "seconds"),
)

TOPICS = (
    whole("topicLoadTimeoutSeconds", 1, DAY_SECONDS, "seconds"),
    whole("maxConcurrentTopicLoadRequest", 1, MAX_INT, "topics"),
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
    switch("strictBookieAffinityEnabled"),
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
"""The keys of default policies, which hold for topics when neither the topic nor its namespace sets the policy, and of
limits for topics and namespaces."""

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

PEERS = (
    any_text("brokerClientAuthenticationPlugin"),
    any_text("brokerClientAuthenticationParameters", is_secret=True),
    switch("brokerClientTlsEnabled"),
    any_text("brokerClientTrustCertsFilePath"),
    any_text("brokerClientCertificateFilePath"),
    any_text("brokerClientKeyFilePath"),
    switch("tlsHostnameVerificationEnabled"),
    whole("metadataStoreOperationTimeoutSeconds", 1, DAY_SECONDS, "seconds"),
)
"""The keys that say how this broker presents itself to the other brokers of its cluster."""

BUNDLES = (
    whole("namespaceBundleUnloadingTimeoutMs", 1, MAX_INT, "milliseconds"),
    choice("defaultNamespaceBundleSplitAlgorithm", *SPLIT_ALGORITHMS),
    list_of("supportedNamespaceBundleSplitAlgorithms", *SPLIT_ALGORITHMS),
    number("flowOrQpsDifferenceThresholdPercentage", 0, 10_000, "percent"),
)
"""The keys that say how bundles of topics are given away and split."""

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
)

STANDALONE_START = (whole("acceptMetadataGeneration", -1, MAX_LONG),)
"""Only a standalone server keeps metadata and ledgers together, which may not fit each other."""

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
    for section in (
        SERVER,
        CONNECTIONS,
        HTTP,
        SECURITY,
        PEERS,
        BUNDLES,
        METRICS,
        TOPICS,
        POLICIES,
        MANAGED_LEDGERS,
        BOOKIE,
        STANDALONE_START,
        LEDGER_CLIENT,
        LOAD,
        TRANSACTIONS,
        (STANDALONE_LOAD_MANAGER,),
        FAULTS,
    )
    for key in section
}

NOT_ABOVE = (
    ("managedLedgerDefaultAckQuorum", "managedLedgerDefaultWriteQuorum"),
    ("managedLedgerDefaultWriteQuorum", "managedLedgerDefaultEnsembleSize"),
    ("managedLedgerMinLedgerRolloverTimeMinutes", "managedLedgerMaxLedgerRolloverTimeMinutes"),
    ("dispatcherReadFailureBackoffInitialTimeInMs", "dispatcherReadFailureBackoffMaxTimeInMs"),
    ("diskUsageLwmThreshold", "diskUsageThreshold"),
)
"""Pairs of keys: the value of the first key must not exceed the value of the second key."""

UNSAFE_TO_IGNORE = {
    "tlsEnabledWithKeyStore": "certificates are read from PEM files, not from key stores",
    "brokerClientTlsEnabledWithKeyStore": "certificates are read from PEM files, not from key stores",
}
"""Switches of protections that this server lacks, with the reason. A configuration that turns on such a switch is
refused, so that nobody believes that the protection is on."""
