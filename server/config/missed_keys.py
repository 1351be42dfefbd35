"""Keys of Apache's broker that this server does not honour and that clients will miss, each with the feature that will
not work.

A key is in this list if an operator who sets it would be surprised by what clients get. Keys about threads, caches,
metrics and load balancing are not in this list.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

JAVA_OWN = "org.apache."
"""The beginning of the names of Apache's own classes."""


class MissedKey(NamedTuple):
    """A key whose effect clients will miss: the values that ask for the effect, and the text in the log for the
    operator."""

    matters: Callable[[str], bool]
    """Tells whether a value asks for something that does not exist here."""
    says: str


def _on(says: str) -> MissedKey:
    return MissedKey(lambda value: value.lower() == "true", says)


def _off(says: str) -> MissedKey:
    return MissedKey(lambda value: value.lower() == "false", says)


def _any(says: str) -> MissedKey:
    return MissedKey(bool, says)


def _limit(says: str) -> MissedKey:
    """Returns the MissedKey of a limit. Values of 0 and less switch the limit off, so these values are not reported as
    missing."""
    return MissedKey(lambda value: value.strip("0.") != "" and not value.startswith("-"), says)


def _foreign_class(says: str) -> MissedKey:
    return MissedKey(lambda value: not value.startswith(JAVA_OWN), says)


_ENTRY_METADATA = "messages carry no entry metadata of the broker: no index, no time of the broker"
_ONE_SERVER = "this server keeps metadata in its own file, and is no part of a cluster of brokers"
_OWN_BOOKIE = "messages are stored by the bookie in this process, which is reached without a socket"
_BROKER_RATE = "the rate of the whole broker is not limited, only that of topics and below"
_CLASSES = "classes of Java are not loaded"
_NO_PROXY_HEADER = "connections that begin with a header of the PROXY protocol are refused"

NOT_HERE: Mapping[str, MissedKey] = {
    "functionsWorkerEnabled": _on("functions, sources and sinks are not run: their admin calls answer 409"),
    "enablePackagesManagement": _on("packages cannot be uploaded: their admin calls answer 503"),
    "messagingProtocols": _any("protocol handlers are not loaded: clients of other protocols cannot connect"),
    "brokerInterceptors": _any(f"interceptors do not run: {_CLASSES}"),
    "additionalServlets": _any(f"additional servlets are not served: {_CLASSES}"),
    "entryFilterNames": _any("entry filters do not run: consumers get every message"),
    "allowOverrideEntryFilters": _on("entry filters do not run: consumers get every message"),
    "brokerEntryMetadataInterceptors": _any(_ENTRY_METADATA),
    "exposingBrokerEntryMetadataToClientEnabled": _on(_ENTRY_METADATA),
    "brokerEntryPayloadProcessors": _any("payload processors do not run: messages are stored as producers send them"),
    "managedLedgerOffloadDriver": _any("nothing is offloaded: all messages stay in ledgers"),
    "metadataStoreUrl": _any(_ONE_SERVER),
    "zookeeperServers": _any(_ONE_SERVER),
    "configurationMetadataStoreUrl": _any(f"clusters do not share policies: {_ONE_SERVER}"),
    "configurationStoreServers": _any(f"clusters do not share policies: {_ONE_SERVER}"),
    "globalZookeeperServers": _any(f"clusters do not share policies: {_ONE_SERVER}"),
    "metadataSyncEventTopic": _any("metadata are not synchronised with other clusters"),
    "configurationMetadataSyncEventTopic": _any("metadata are not synchronised with other clusters"),
    "replicationTlsEnabled": _on("messages are not replicated to other clusters"),
    "clusterMigrationCheckDurationSeconds": _limit("clients are not moved to another cluster"),
    "bookkeeperMetadataServiceUri": _any(_OWN_BOOKIE),
    "bookkeeperTLSClientAuthentication": _on(_OWN_BOOKIE),
    "bookkeeperTLSTrustCertsFilePath": _any(_OWN_BOOKIE),
    "bookkeeperClientAuthenticationPlugin": _any(_OWN_BOOKIE),
    "sslFactoryPlugin": _foreign_class(f"TLS is set up by its other keys: {_CLASSES}"),
    "tlsKeyStore": _any("certificates are read from PEM files, not from key stores"),
    "tlsTrustStore": _any("certificates are read from PEM files, not from key stores"),
    "haProxyProtocolEnabled": _on(_NO_PROXY_HEADER),
    "webServiceHaProxyProtocolEnabled": _on(_NO_PROXY_HEADER),
    "enablePersistentTopics": _off("persistent topics are served all the same"),
    "subscriptionKeySharedEnable": _off("Key_Shared is allowed all the same: subscriptionTypesEnabled says what is"),
    "clientLibraryVersionCheckEnabled": _on("old client libraries are not refused"),
    "dispatchThrottlingRateInMsg": _limit(_BROKER_RATE),
    "dispatchThrottlingRateInByte": _limit(_BROKER_RATE),
    "dispatchThrottlingOnNonBacklogConsumerEnabled": _off("dispatch rates hold for consumers without a backlog too"),
    "dispatchThrottlingOnBatchMessageEnabled": _on("dispatch rates count the messages of a batch, not batches"),
    "maxUnackedMessagesPerBroker": _limit("unacknowledged messages are limited by consumer and subscription only"),
    "maxTenants": _limit("the number of tenants is not limited"),
    "maxNamespacesPerTenant": _limit("the number of a tenant's namespaces is not limited"),
    "maxSameAddressProducersPerTopic": _limit("producers are not counted by address"),
    "maxSameAddressConsumersPerTopic": _limit("consumers are not counted by address"),
    "brokerDeleteInactivePartitionedTopicMetadataEnabled": _on("partitioned topics are deleted by administrators only"),
    "allowAclChangesOnNonExistentTopics": _on("permissions are granted on topics that exist only"),
    "bootstrapNamespaces": _any("namespaces are made by administrators only"),
    "httpRequestsFailOnUnknownPropertiesEnabled": _on("members of a body that nobody knows are passed over"),
    "topicFactoryClassName": _foreign_class(_CLASSES),
    "managedLedgerStorageClassName": _foreign_class(_CLASSES),
    "schemaRegistryStorageClassName": _foreign_class(_CLASSES),
    "compactionServiceFactoryClassName": _foreign_class(_CLASSES),
    "topicPoliciesServiceClassName": _foreign_class(_CLASSES),
}
