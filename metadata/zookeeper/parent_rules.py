"""Decides, without I/O, which missing parents are made so that ZooKeeper removes them after their last child is gone.

Java's brokers make every missing parent a CONTAINER (ZKMetadataStore.asyncCreateFullPathOptimistic), so that deleted
namespaces and topics leave no empty records behind. ZooKeeper looks for empty containers once a minute. BookKeeper
makes its parents persistent (ZkUtils). A container that was removed and made again counts its sequential children from
0 again, so the parents of sequential records are made persistent.
"""

from magnetar.metadata import paths

FIXED = frozenset(
    {
        "/admin",
        paths.CLUSTERS,
        paths.POLICIES,
        paths.LOCAL_POLICIES,
        paths.PARTITIONED_TOPICS,
        paths.RESOURCE_GROUPS,
        paths.FLAGS,
        paths.MANAGED_LEDGERS,
        paths.NAMESPACE_OWNERS,
        paths.SCHEMAS,
        "/loadbalance",
    }
)
"""The roots that every cluster has. They are persistent."""

PERSISTENT_TREES = (paths.LEDGERS_ROOT, "/counters")
"""All parents below these paths are persistent, too."""


def is_container(path: str, *, is_sequential: bool) -> bool:
    """Returns whether a missing parent at `path` (without the chroot) is made a container. `is_sequential` says that
    the parent is made for a sequential record."""
    if is_sequential or path in FIXED:
        return False
    return not any(path == root or path.startswith(f"{root}/") for root in PERSISTENT_TREES)
