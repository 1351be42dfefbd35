"""The configuration keys that Apache's brokers can change while they run, with the type of each.

Any of these keys may stand in the record /admin/configuration, which Apache's brokers and this broker read. Keys that
are not in `honoured_keys` have no effect on this broker, nor have keys whose settings object is not held
(`DynamicConfiguration.hold`). Source: the fields of ServiceConfiguration with `dynamic = true`; the list is the answer
of Pulsar 4.0.7 to GET /admin/v2/brokers/configuration.
"""

from enum import Enum


class JavaType(Enum):
    """The type of a key's field in Java. The type decides which texts Java's FieldParser accepts as a value."""

    BOOLEAN = "true or false"
    INT = "a whole number from -2147483648 to 2147483647"
    LONG = "a whole number from -9223372036854775808 to 9223372036854775807"
    DOUBLE = "a number"
    TEXT = "a text"


_NAMES = {
    JavaType.BOOLEAN: """
    allowAutoSubscriptionCreation allowAutoTopicCreation allowOverrideEntryFilters autoSkipNonRecoverableData
    bookkeeperUseV2WireProtocol brokerClientTlsEnabled brokerDeleteInactivePartitionedTopicMetadataEnabled
    brokerDeleteInactiveTopicsEnabled clientLibraryVersionCheckEnabled dispatchThrottlingOnBatchMessageEnabled
    dispatchThrottlingOnNonBacklogConsumerEnabled dispatchThrottlingRateRelativeToPublishRate
    dispatcherDispatchMessagesInSubscriptionThread dispatcherPauseOnAckStatePersistentEnabled
    exposeBundlesMetricsInPrometheus failureDomainsEnabled forceDeleteNamespaceAllowed forceDeleteTenantAllowed
    httpRequestsFailOnUnknownPropertiesEnabled isAllowAutoUpdateSchemaEnabled loadBalancerAutoBundleSplitEnabled
    loadBalancerAutoUnloadSplitBundlesEnabled loadBalancerDebugModeEnabled
    loadBalancerDistributeBundlesEvenlyEnabled loadBalancerSheddingBundlesWithPoliciesEnabled
    loadBalancerSheddingEnabled loadBalancerTransferEnabled managedLedgerForceRecovery
    managedLedgerTraceTaskExecution preciseDispatcherFlowControl preferLaterVersions schemaLedgerForceRecovery
    skipBrokerShutdownOnOOM strictlyVerifySubscriptionName subscriptionKeySharedEnable
    subscriptionKeySharedUseClassicPersistentImplementation subscriptionRedeliveryTrackerEnabled
    subscriptionSharedUseClassicPersistentImplementation transactionLogBatchedWriteEnabled
    transactionPendingAckBatchedWriteEnabled unblockStuckSubscriptionEnabled
    """,
    JavaType.INT: """
    brokerDeleteInactiveTopicsFrequencySeconds brokerDeleteInactiveTopicsMaxInactiveDurationSeconds
    brokerPublisherThrottlingMaxMessageRate brokerPublisherThrottlingTickTimeMillis defaultNumPartitions
    defaultNumberOfNamespaceBundles dispatchThrottlingRateInMsg dispatchThrottlingRatePerReplicatorInMsg
    dispatchThrottlingRatePerSubscriptionInMsg dispatchThrottlingRatePerTopicInMsg
    dispatcherEntryFilterRescheduledMessageDelay dispatcherMaxReadBatchSize dispatcherMaxReadSizeBytes
    dispatcherMaxRoundRobinBatchSize dispatcherMinReadBatchSize dispatcherReadFailureBackoffInitialTimeInMs
    dispatcherReadFailureBackoffMandatoryStopTimeInMs dispatcherReadFailureBackoffMaxTimeInMs
    flowOrQpsDifferenceThresholdPercentage keySharedLookAheadMsgInReplayThresholdPerConsumer
    keySharedLookAheadMsgInReplayThresholdPerSubscription
    loadBalancerAverageResourceUsageDifferenceThresholdPercentage loadBalancerAvgShedderHighThreshold
    loadBalancerAvgShedderHitCountHighThreshold loadBalancerAvgShedderHitCountLowThreshold
    loadBalancerAvgShedderLowThreshold loadBalancerBrokerMaxTopics
    loadBalancerBrokerOverloadedThresholdPercentage loadBalancerBrokerThresholdShedderPercentage
    loadBalancerHostUsageCheckIntervalMinutes loadBalancerMaxNumberOfBrokerSheddingPerCycle
    loadBalancerMaxNumberOfBundlesInBundleLoadReport loadBalancerMaxNumberOfBundlesToSplitPerCycle
    loadBalancerNamespaceBundleMaxBandwidthMbytes loadBalancerNamespaceBundleMaxMsgRate
    loadBalancerNamespaceBundleMaxSessions loadBalancerNamespaceBundleMaxTopics
    loadBalancerNamespaceBundleSplitConditionHitCountThreshold loadBalancerNamespaceMaximumBundles
    loadBalancerReportUpdateMaxIntervalMinutes loadBalancerReportUpdateMinIntervalMillis
    loadBalancerReportUpdateThresholdPercentage loadBalancerServiceUnitStateMaxConcurrentOverrides
    loadBalancerSheddingConditionHitCountThreshold loadBalancerSheddingIntervalMinutes managedLedgerCacheSizeMB
    managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis
    managedLedgerInactiveLedgerRolloverTimeSeconds managedLedgerInactiveOffloadedLedgerEvictionTimeSeconds
    managedLedgerMaxBacklogBetweenCursorsForCaching managedLedgerMinimumBacklogCursorsForCaching
    managedLedgerMinimumBacklogEntriesForCaching maxConcurrentLookupRequest maxConcurrentTopicLoadRequest
    maxMessagePublishBufferSizeInMB maxNamespacesPerTenant maxNumPartitionsPerPartitionedTopic
    maxPublishRatePerTopicInMessages maxTenants maxTopicsPerNamespace maxUnloadBundleNumPerShedding
    minUnloadMessage minUnloadMessageThroughput replicationProducerQueueSize
    resourceUsageTransportPublishIntervalInSecs subscribeRatePeriodPerConsumerInSecond
    subscribeThrottlingRatePerConsumer topicNameCacheMaxCapacity topicPublisherThrottlingTickTimeMillis
    """,
    JavaType.LONG: """
    brokerPublisherThrottlingMaxByteRate brokerShutdownTimeoutMs dispatchThrottlingRateInByte
    dispatchThrottlingRatePerReplicatorInByte dispatchThrottlingRatePerSubscriptionInByte
    dispatchThrottlingRatePerTopicInByte keySharedUnblockingIntervalMs loadBalanceSheddingDelayInSeconds
    loadBalancerBrokerLoadDataTTLInSeconds loadBalancerSheddingGracePeriodMinutes
    managedLedgerCacheEvictionTimeThresholdMillis maxPublishRatePerTopicInBytes
    namespaceBundleUnloadingTimeoutMs
    """,
    JavaType.DOUBLE: """
    loadBalancerBandwidthInResourceWeight loadBalancerBandwidthOutResourceWeight
    loadBalancerBandwithInResourceWeight loadBalancerBandwithOutResourceWeight loadBalancerBrokerLoadTargetStd
    loadBalancerBundleUnloadMinThroughputThreshold loadBalancerCPUResourceWeight
    loadBalancerDirectMemoryResourceWeight loadBalancerHistoryResourcePercentage
    loadBalancerMemoryResourceWeight loadBalancerMsgRateDifferenceShedderThreshold
    loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold managedLedgerCacheEvictionWatermark
    maxUnloadPercentage
    """,
    JavaType.TEXT: """
    allowAutoTopicCreationType brokerClientAuthenticationParameters brokerClientAuthenticationPlugin
    brokerDeleteInactiveTopicsMode configurationMetadataSyncEventTopic defaultNamespaceBundleSplitAlgorithm
    entryFilterNames entryFiltersDirectory loadBalancerLoadSheddingStrategy
    loadBalancerServiceUnitTableViewSyncer loadManagerClassName metadataSyncEventTopic replicationStartAt
    subscriptionTypesEnabled superUserRoles supportedNamespaceBundleSplitAlgorithms topicFactoryClassName
    """,
}

DYNAMIC_KEYS: dict[str, JavaType] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
