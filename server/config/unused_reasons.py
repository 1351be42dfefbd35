"""Why keys that Apache's broker or bookie knows have no effect here: a sentence for each group of keys. No I/O."""

import re

REASONS: tuple[tuple[str, str], ...] = (
    ("nothing is offloaded: all messages stay in ledgers", r"(?i).*offload.*|fileSystem(URI|ProfilePath)"),
    ("functions and packages are not run here", r"functionsWorker.*|.*[pP]ackagesManagement.*|packagesReplicas"),
    (
        "messages are not replicated to other clusters",
        r"(?i)replicat(ion|or).*|.*ReplicatedSubscription.*|.*ForReplication|.*PerReplicator.*|clusterMigration.*",
    ),
    (
        "it belongs to the extensible load manager, which is not here",
        r"loadBalancer(ServiceUnit|InFlight|BrokerLoad|Transfer|MultiPhase|MaxNumberOfBrokerShedding"
        r"|MaxNumberOfBundlesToSplit|Memory|SheddingCondition|NamespaceBundleSplitCondition|SheddingBundlesWith|Debug).*"
        r"|loadBalanceSheddingDelay.*|loadManagerServiceUnit.*",
    ),
    (
        "certificates are read from PEM files; Python's ssl does TLS",
        r".*(KeyStore|TrustStore)(Password|Path|PasswordPath|Type)?|.*(Ssl|Tls|tls)Provider|.*[sS]slFactoryPlugin.*"
        r"|httpServerTlsEnable",
    ),
    ("TLS is on where brokerServicePortTls or webServicePortTls is set, as in Apache's broker", r"tlsEnabled"),
    ("Kerberos is not here", r"sasl.*|kinitCommand|.*[sS]aslContext.*"),
    (
        "classes of Java are not loaded",
        r".*ClassName|.*(Factory|Formatter|Manager|Impl)Class(Prefix)?|.*Directory|.*NarPackage|extraServer.*"
        r"|ignoreExtra.*|.*ForProtocolHandlers|.*ShadedLedger.*|.*FactoryDisableClassCheck"
        r"|schemaRegistryCompatibilityCheckers|.*FactoryClassName|registrationManagerClass|journalChannelProvider"
        r"|.*EntryFilterRescheduled.*|dispatchThrottlingForFilteredEntriesEnabled",
    ),
    (
        "there is one event loop, and no threads, buffers or channels of a JVM to be tuned",
        r"allocator.*|byteBuf.*|num[A-Z].*|.*Thread.*|server(Num|Sock|Tcp|WriteBuffer).*|enable(BusyWait|LocalTransport)"
        r"|disableServerSocketBind|.*[tT]askExecution.*|jvm.*|requestTimer.*|skipBrokerShutdownOnOOM|bookkeeper.*Channels.*"
        r"|managedLedgerDataReadPriority|limitStatsLogging|.*LimitStatsLogging|closeChannelOnResponseTimeout"
        r"|.*OnResponseBackpressureMs|topicNameCache.*|maxSecondsToClearTopicNameCache|httpServerThreadPool.*",
    ),
    (
        "files on disk are laid out differently (DATA_FILES.md), and every receipt follows an fdatasync",
        r"journal.*|dbStorage_.*|entry(Log|log|Location).*|ledgerStorageClass|skipList.*|sortedLedger.*|fileInfo.*"
        r"|indexDirectories|(read|write)BufferSizeBytes|flushEntrylogBytes|gcEntryLog.*|localScrub.*|local.*OnStartup"
        r"|dataIntegrity.*|page(Limit|Size)|.*[rR]ocksdb.*|openFileLimit|isForceGCAllow.*|forceAllowCompaction"
        r"|.*EntryLogSizeForGc|useTransactionalCompaction|maximumNumberOfActiveEntryLogs|.*CompactionMaxTimeMillis"
        r"|isThrottleByBytes|compaction(Rate|RateByEntries|MaxOutstandingRequests)|minUsableSizeFor.*"
        r"|skipReplayJournalInvalidRecord",
    ),
    (
        "delayed messages stand in one index in memory, which is rebuilt when a topic is loaded",
        r"delayedDelivery(Fixed|Max|Min|Tracker).*",
    ),
    (
        "the cache of entries has a size (managedLedgerCacheSizeMB) and an age, and no other settings",
        r"managedLedger(Cache|MinimumBacklog|MaxBacklogBetween|MaxReadsInFlight).*|cacheEvictionByMarkDeletedPosition",
    ),
    (
        "records are written one by one over one session, without batches, and their copies are kept right by watches",
        r"metadataStore(Batching|Cache).*|zooKeeperCacheExpirySeconds|zkR.*",
    ),
    ("ZooKeeper is asked for full sessions only", r".*AllowReadOnlyOperations"),
    ("a file with ZooKeeper's client settings is not read", r".*StoreConfigPath"),
    ("there is one dispatcher for each kind of subscription", r".*ClassicPersistentImplementation|preciseDispatcher.*"),
)
"""Each sentence with the pattern of the keys that it is about. The first that fits counts."""

_COMPILED = tuple((sentence, re.compile(pattern)) for sentence, pattern in REASONS)


def reason_of(name: str) -> str | None:
    """Returns why a key has no effect, or None when there is no more to say than that nothing corresponds to it."""
    return next((sentence for sentence, pattern in _COMPILED if pattern.fullmatch(name)), None)
