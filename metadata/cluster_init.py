"""Makes the records of a new cluster: builds their values, and writes the records that are missing.

JSON values are written as Jackson writes them: compact, with the keys in the order that a real server's records have
(tests/vectors/cluster_records.json). A new cluster has its own record, the tenants `public` and `pulsar`, the
namespaces `public/default` and `pulsar/system`, the partitioned topic that assigns the transaction coordinators, and
BookKeeper's `/ledgers`. Source: PulsarClusterMetadataSetup, PulsarStandalone, and BookKeeperAdmin.initNewCluster.
"""

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.compare_and_set import ATTEMPTS_MAX, rounds_lost, update_record
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.store import CreateOp, MetadataStore
from magnetar.metadata.tree_rules import parent_of

log = logging.getLogger(__name__)

LAYOUT_VALUE = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"

DEFAULT_BUNDLES = 4
STANDALONE_TRANSACTION_COORDINATORS = 1
"""The number of partitions of the coordinators' topic in Apache's standalone; a cluster that Apache's tool sets up has
16."""


def to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def cluster_value(broker_service_url: str, web_service_url: str) -> bytes:
    """Returns a ClusterData as Apache's standalone writes it."""
    return to_json(
        {
            "brokerServiceUrl": broker_service_url,
            "brokerClientTlsEnabled": False,
            "tlsAllowInsecureConnection": False,
            "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
            "brokerClientTlsEnabledWithKeyStore": False,
            "brokerClientTlsTrustStoreType": "JKS",
            "brokerClientTlsKeyStoreType": "JKS",
            "serviceUrl": web_service_url,
        }
    )


def tenant_value(allowed_clusters: Sequence[str], admin_roles: Sequence[str] = ()) -> bytes:
    """Returns a TenantInfo."""
    return to_json({"adminRoles": list(admin_roles), "allowedClusters": list(allowed_clusters)})


def bundles_data(count: int = DEFAULT_BUNDLES) -> dict[str, Any]:
    """Returns a BundlesData of `count` ranges of equal size, the last of which ends at 0xffffffff.

    Raises ValueError if no namespace can have `count` bundles.
    """
    if not 0 < count <= 2**32 - 1:
        raise ValueError(f"{count} bundles: must be 1 to 2^32-1")
    width = 2**32 // count
    starts = [f"0x{number * width:08x}" for number in range(count)]
    return {"boundaries": [*starts, "0xffffffff"], "numBundles": count}


def policies_value(
    clusters: Sequence[str], *, bundles: int = DEFAULT_BUNDLES, auto_update_schema: bool | None = None
) -> bytes:
    """Returns the Policies of a new namespace.

    With `auto_update_schema` the policies also have the key `is_allow_auto_update_schema`. They have the key for a
    namespace that was made by REST and for public/default of Apache's standalone; the cluster's initialisation makes
    namespaces without the key.
    """
    policies: dict[str, Any] = {
        "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
        "replication_clusters": list(clusters),
        "allowed_clusters": [],
        "bundles": bundles_data(bundles),
    }
    for rates in (
        "backlog_quota_map",
        "clusterDispatchRate",
        "topicDispatchRate",
        "subscriptionDispatchRate",
        "replicatorDispatchRate",
        "clusterSubscribeRate",
        "publishMaxMessageRate",
        "latency_stats_sample_rate",
    ):
        policies[rates] = {}
    policies |= {
        "deleted": False,
        "encryption_required": False,
        "subscription_auth_mode": "None",
        "offload_threshold": -1,
        "offload_threshold_in_seconds": -1,
        "schema_compatibility_strategy": "UNDEFINED",
    }
    if auto_update_schema is not None:
        policies["is_allow_auto_update_schema"] = auto_update_schema
    policies |= {"schema_validation_enforced": False, "subscription_types_enabled": [], "properties": {}}
    policies["migrated"] = False
    return to_json(policies)


def local_policies_value(bundles: int = DEFAULT_BUNDLES) -> bytes:
    """Returns the LocalPolicies that a broker writes when it first loads a namespace's bundles."""
    return to_json({"bundles": bundles_data(bundles), "migrated": False})


def partitioned_topic_value(partitions: int, properties: Mapping[str, str] | None = None) -> bytes:
    """Returns a PartitionedTopicMetadata."""
    value: dict[str, Any] = {"partitions": partitions, "deleted": False}
    if properties is not None:
        value["properties"] = dict(properties)
    return to_json(value)


def cluster_records(
    cluster: str,
    *,
    broker_service_url: str,
    web_service_url: str,
    instance_id: str,
    transaction_coordinators: int = STANDALONE_TRANSACTION_COORDINATORS,
) -> dict[str, bytes]:
    """Returns all records of a new cluster by their paths. The empty parents of these records are left out."""
    namespace, domain, topic = "pulsar/system", "persistent", "transaction_coordinator_assign"
    return {
        paths.LEDGERS_ROOT: b"",
        paths.AVAILABLE_BOOKIES: b"",
        paths.READ_ONLY_BOOKIES: b"",
        paths.INSTANCE_ID: instance_id.encode(),
        paths.LAYOUT: LAYOUT_VALUE,
        paths.MANAGED_LEDGERS: b"",
        paths.NAMESPACE_OWNERS: b"",
        paths.cluster_path(cluster): cluster_value(broker_service_url, web_service_url),
        paths.tenant_path("public"): tenant_value([cluster]),
        paths.policies_path("public/default"): policies_value([cluster], auto_update_schema=True),
        paths.tenant_path("pulsar"): tenant_value([cluster]),
        paths.policies_path(namespace): policies_value([cluster]),
        paths.partitioned_topic_path(namespace, domain, topic): partitioned_topic_value(transaction_coordinators),
    }


async def initialize_cluster(
    store: MetadataStore,
    cluster: str,
    *,
    broker_service_url: str,
    web_service_url: str,
    instance_id: str | None = None,
    transaction_coordinators: int = STANDALONE_TRANSACTION_COORDINATORS,
) -> int:
    """Writes those records of a new cluster that are missing, in one atomic change, and leaves the others as they are.

    The id of the instance is drawn anew unless the caller gives one. Returns how many records were missing. On every
    start but the first this is 0, and nothing is written. Raises MetadataError when the store fails.
    """
    wanted = cluster_records(
        cluster,
        broker_service_url=broker_service_url,
        web_service_url=web_service_url,
        instance_id=instance_id or str(uuid.uuid4()),
        transaction_coordinators=transaction_coordinators,
    )
    for _ in range(ATTEMPTS_MAX):
        missing = await _missing(store, wanted)
        if not missing:
            return 0
        try:
            await store.multi([CreateOp(path, value) for path, value in missing.items()])
        except NodeExistsError:
            continue  # another server writes the same records at the same time
        log.info("cluster %s: made %d records", cluster, len(missing))
        return len(missing)
    raise rounds_lost(paths.cluster_path(cluster))


async def _missing(store: MetadataStore, wanted: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the records that do not exist, each after its parents."""
    missing: dict[str, bytes] = {}
    for path, value in wanted.items():
        lineage = [path]
        while (parent := parent_of(lineage[-1])) not in wanted and parent not in missing and parent != "/":
            lineage.append(parent)
        for ancestor in reversed(lineage):
            if await store.exists(ancestor) is None:
                missing[ancestor] = value if ancestor == path else b""
    return missing


async def publish_cluster_urls(
    store: MetadataStore,
    cluster: str,
    *,
    broker_service_url: str,
    web_service_url: str,
    broker_service_url_tls: str = "",
    web_service_url_tls: str = "",
) -> None:
    """Writes the addresses of this server to the cluster's record. Apache's standalone does so at each start.

    The key of an empty address is removed; other keys stay as they are. Nothing is written when the record has these
    addresses already. Raises MetadataError when the store fails.
    """
    urls = {
        "brokerServiceUrl": broker_service_url,
        "brokerServiceUrlTls": broker_service_url_tls,
        "serviceUrl": web_service_url,
        "serviceUrlTls": web_service_url_tls,
    }
    path = paths.cluster_path(cluster)

    def change(value: bytes | None) -> bytes | None:
        if value is None:
            raise NoNodeError(path)
        known = json.loads(value)
        data = known | urls
        for name in [name for name, url in urls.items() if not url]:
            del data[name]
        return None if data == known else to_json(data)

    await update_record(store, path, change)
