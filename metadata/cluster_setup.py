"""Sets up the metadata of a cluster of brokers: writes the records that Apache's tool `pulsar
initialize-cluster-metadata` writes.

Every record is created only if it is missing. A second run, or a run for another cluster over the same configuration
store, adds the cluster to the tenants and namespaces that all clusters have, and gives the topic of the transaction
coordinators more partitions if more are asked for. `/ledgers/LAYOUT` is not written here; the first bookie or
BookKeeper client writes that record. The paths, the values and the order of their keys are taken from a real store
(tests/vectors/initialize_cluster.json). Source: PulsarClusterMetadataSetup.
"""

import contextlib
import json
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import partitioned_topic_value, policies_value, tenant_value, to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.errors import NodeExistsError
from magnetar.metadata.store import CreateOp, MetadataStore
from pulsar_proto.errors import MalformedRecord

log = logging.getLogger(__name__)

SYSTEM_BUNDLES = 16
"""The number of bundles of pulsar/system, and of public/default unless another number is asked for."""
COORDINATORS_PATH = paths.partitioned_topic_path("pulsar/system", "persistent", "transaction_coordinator_assign")


@dataclass(frozen=True, slots=True)
class LedgersPlace:
    """The place of BookKeeper's records: the ZooKeeper servers, such as "h1:2181,h2:2181", and the path of the root."""

    servers: str
    path: str = paths.LEDGERS_ROOT


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The description of the cluster that is set up."""

    cluster: str
    urls: Mapping[str, str]
    """The texts of the cluster's record by their keys, such as serviceUrl. The record leaves out empty texts."""
    ledgers: LedgersPlace
    has_bookkeeper: bool = True
    """False for a cluster whose ledgers are on the bookies of another cluster. Nothing is written for BookKeeper
    then."""
    client_tls: bool = False
    default_bundles: int = SYSTEM_BUNDLES
    transaction_coordinators: int = 16
    stream_storage_containers: int = 16
    """The number of containers that BookKeeper's stream storage is set up with. With 0 no records of stream storage are
    written. Neither brokers nor bookies of ours read these records."""
    host_address: str = "127.0.0.1"
    """The address of this machine, which Apache's tool leaves in some records that nobody reads."""
    instance_id: str = field(default_factory=lambda: str(uuid.uuid4()))


CLUSTER_KEYS = (
    "serviceUrl",
    "serviceUrlTls",
    "brokerServiceUrl",
    "brokerServiceUrlTls",
    "proxyServiceUrl",
    "proxyProtocol",
    "authenticationPlugin",
    "authenticationParameters",
)
"""The keys of a ClusterData that the options of the tool set, in the order in which Jackson writes them."""


def new_cluster_value(urls: Mapping[str, str], *, client_tls: bool = False) -> bytes:
    """Returns a ClusterData as Apache's tool writes it."""
    return to_json(
        {
            **{key: urls[key] for key in CLUSTER_KEYS if urls.get(key)},
            "brokerClientTlsEnabled": client_tls,
            "tlsAllowInsecureConnection": False,
            "brokerClientTlsEnabledWithKeyStore": False,
            "brokerClientTlsTrustStoreType": "JKS",
            "brokerClientTlsKeyStoreType": "JKS",
            "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
        }
    )


def distributed_log_value(ledgers: LedgersPlace) -> bytes:
    """Returns the metadata of a namespace of DistributedLog, in which Apache's function workers and stream storage keep
    their streams (BKDLConfig.serialize)."""
    servers = {"str": ledgers.servers}
    fields: dict[str, Any] = {"1": servers, "2": {"str": ledgers.path}, "3": {"tf": 1}, "4": {"tf": 0}}
    return b"1\nBKDL\n" + to_json(fields | {"5": servers, "6": servers, "7": servers})


def bookkeeper_records(plan: ClusterPlan) -> dict[str, bytes]:
    """Returns the records that are written in one change if `/ledgers` is missing (BookKeeperAdmin.initNewCluster)."""
    return {
        paths.LEDGERS_ROOT: b"",
        paths.AVAILABLE_BOOKIES: b"",
        paths.READ_ONLY_BOOKIES: b"",
        paths.INSTANCE_ID: plan.instance_id.encode(),
    }


def local_records(plan: ClusterPlan) -> dict[str, bytes]:
    """Returns the other records of the cluster's own store, each after its parent."""
    records: dict[str, bytes] = {}
    if plan.has_bookkeeper:
        records |= {"/pulsar": b"", "/pulsar/functions": distributed_log_value(plan.ledgers)}
    if plan.stream_storage_containers:
        address = plan.host_address.encode()
        records |= {
            "/stream": address,
            "/stream/metadata": b"\x08" + _varint(plan.stream_storage_containers),
            "/stream/servers": address,
            "/stream/servers/available": address,
            "/stream/assignment": b"",
            "/stream/storage": distributed_log_value(plan.ledgers),
        }
    return records | {paths.BOOKIE_RACKS: b"{}"}


def _varint(number: int) -> bytes:
    """Returns a whole number as protobuf writes it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


async def set_up_cluster(local: MetadataStore, configuration: MetadataStore, plan: ClusterPlan) -> None:
    """Makes the records that are missing. Raises MetadataError when a store fails, and MalformedRecord for an existing
    record that cannot be parsed."""
    if plan.has_bookkeeper and await local.exists(paths.LEDGERS_ROOT) is None:
        # Another run may have made them meanwhile.
        with contextlib.suppress(NodeExistsError):
            await local.multi([CreateOp(path, value) for path, value in bookkeeper_records(plan).items()])
            log.info("made %s, instance %s", paths.LEDGERS_ROOT, plan.instance_id)
    for path, value in local_records(plan).items():
        await _create(local, path, value)

    cluster = plan.cluster
    await _create(configuration, paths.cluster_path(cluster), new_cluster_value(plan.urls, client_tls=plan.client_tls))
    await _create(configuration, paths.cluster_path("global"), new_cluster_value({}))
    for tenant in ("public", "pulsar"):
        made = tenant_value([cluster])
        await _create_or_change(configuration, paths.tenant_path(tenant), made, _with("allowedClusters", cluster))
    for namespace, bundles in (("public/default", plan.default_bundles), ("pulsar/system", SYSTEM_BUNDLES)):
        made = policies_value([cluster], bundles=bundles)
        path = paths.policies_path(namespace)
        await _create_or_change(configuration, path, made, _with("replication_clusters", cluster))
    coordinators = plan.transaction_coordinators
    made = partitioned_topic_value(coordinators)
    await _create_or_change(configuration, COORDINATORS_PATH, made, _grown_to(coordinators))


async def _create(store: MetadataStore, path: str, value: bytes) -> None:
    try:
        await store.create(path, value, make_parents=True)
    except NodeExistsError:
        return
    log.info("made %s", path)


ChangeOfJson = Callable[[dict[str, Any]], bool]
"""Changes a record's JSON value in place. Returns whether anything changed. Raises KeyError, TypeError, AttributeError
for a value of another shape."""


async def _create_or_change(store: MetadataStore, path: str, made: bytes, change: ChangeOfJson) -> None:
    """Creates the record, or applies `change` to the existing record and keeps all keys that the change does not
    touch."""

    def changed(value: bytes | None) -> bytes | None:
        if value is None:
            return made
        try:
            known = json.loads(value)
            return to_json(known) if change(known) else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedRecord(f"{path} cannot be read: {error!r}") from error

    await update_record(store, path, changed)


def _with(key: str, cluster: str) -> ChangeOfJson:
    """Returns the change that adds the cluster to a list of clusters."""

    def change(known: dict[str, Any]) -> bool:
        clusters = known.get(key) or []
        if cluster in clusters:
            return False
        known[key] = [*clusters, cluster]
        return True

    return change


def _grown_to(partitions: int) -> ChangeOfJson:
    """Returns the change that raises the number of a topic's partitions to `partitions`, and never lowers the
    number."""

    def change(known: dict[str, Any]) -> bool:
        if int(known["partitions"]) >= partitions:
            return False
        known["partitions"] = partitions
        return True

    return change
