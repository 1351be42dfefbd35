"""Joins a BookKeeper cluster: checks its records before a program uses them, and writes LAYOUT if it is missing.

Pulsar's initialize-cluster-metadata makes `/ledgers` and `/ledgers/INSTANCEID`, and leaves `/ledgers/LAYOUT` to the
first bookie or client (AbstractZkLedgerManagerFactory.newLedgerManagerFactory).
"""

import logging

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.errors import NodeExistsError
from magnetar.metadata.store import MetadataStore, Record
from magnetar.metadata.zookeeper.service_uri import FROM_THE_CLUSTER, layout_fault

log = logging.getLogger(__name__)


class ClusterError(Exception):
    """The metadata store holds no BookKeeper cluster, or it holds one that this program cannot join."""


async def join_cluster(store: MetadataStore, connect: str, wanted: str = FROM_THE_CLUSTER) -> str:
    """Returns the instance id of the cluster, and writes LAYOUT if that record is missing.

    `connect` is the text that names the store in error messages; `wanted` is the factory of ledger managers that the
    configuration asks for. Raises ClusterError, MetadataError.
    """
    instance = await store.get(paths.INSTANCE_ID)
    if instance is None:
        raise ClusterError(
            f"there is no BookKeeper cluster at {connect}: no {paths.INSTANCE_ID}; make one with: magnetar bk "
            "initnewcluster, or, for Pulsar's brokers, magnetar initialize-cluster-metadata"
        )
    if fault := layout_fault(await _layout(store), wanted):
        raise ClusterError(fault)
    return instance_of(instance)


async def _layout(store: MetadataStore) -> bytes:
    """Returns the value of LAYOUT, and writes the record first if it is missing. Raises ClusterError, MetadataError."""
    layout = await store.get(paths.LAYOUT)
    if layout is not None:
        return layout.value
    try:
        await store.create(paths.LAYOUT, LAYOUT_VALUE)
    except NodeExistsError:
        layout = await store.get(paths.LAYOUT)
        if layout is None:
            raise ClusterError(f"{paths.LAYOUT} comes and goes: somebody deletes the cluster") from None
        return layout.value
    log.info("wrote %s, which the cluster's initialisation had left out", paths.LAYOUT)
    return LAYOUT_VALUE


def instance_of(record: Record) -> str:
    """Returns the id that the record INSTANCEID holds."""
    return record.value.decode("utf-8", "replace").strip()
