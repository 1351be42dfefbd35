"""The fixtures of a real ZooKeeper behind a proxy."""

from tests.metadata.zookeeper.zookeeper_scene import chroot, direct, proxy, server, store

__all__ = ["chroot", "direct", "proxy", "server", "store"]
