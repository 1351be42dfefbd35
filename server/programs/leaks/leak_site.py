"""Opens the metadata stores and the ledger client that `magnetar leaks` looks at: those of a cluster with ZooKeeper, or
those of a standalone server that is stopped."""

import argparse
import random
import time
from contextlib import AsyncExitStack
from pathlib import Path

from magnetar.metadata.paths import LEDGERS_ROOT, MANAGED_LEDGERS
from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.metadata.zookeeper.connect_string import SCHEME, ConnectString
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.config.broker_config import load_config
from magnetar.server.leaks.leak_steps import HOUR_MS, OWN_STORE
from magnetar.server.network.ports import Urls
from magnetar.server.process.data_folder_lock import DataFolderLock
from magnetar.server.programs.bk.verb_running import CALL_SECONDS, Tool, ToolError
from magnetar.server.programs.storage_start import BOOKIE_ID, open_storage
from magnetar.storage.leaks.entry_reader import EntryReader
from magnetar.storage.leaks.finder import Site
from magnetar.storage.leaks.orphan_rules import Caution
from magnetar.storage.leaks.record_reader import children_of
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver

CHROOT_DEPTH_MAX = 3
"""How deep in ZooKeeper other clusters are looked for."""
LARGE_TREES = ("admin", "ledgers", "loadbalance", "managed-ledgers", "namespace", "schemas", "zookeeper")
"""The trees of a cluster, in which no other cluster has its records."""


def wall_clock_ms() -> int:
    return int(time.time() * 1000)


def caution_of(arguments: argparse.Namespace) -> Caution:
    """Returns how careful the operator wants to be. The time is that of the call, so call it before the look."""
    return Caution(wall_clock_ms(), arguments.grace_hours * HOUR_MS, arguments.all_clusters_given)


async def open_site(tool: Tool, arguments: argparse.Namespace, stack: AsyncExitStack) -> Site:
    """Opens what the command line names; `stack` closes it. Raises the faults of `leak_running`."""
    if arguments.data_dir is not None:
        return await _standalone_site(arguments, stack)
    return await _cluster_site(tool, arguments, stack)


async def _standalone_site(arguments: argparse.Namespace, stack: AsyncExitStack) -> Site:
    folder: Path = arguments.data_dir
    if not (folder / "metadata.sqlite").exists():
        raise ToolError(f"{folder} is no data folder of a standalone server: it has no metadata.sqlite")
    lock = DataFolderLock(folder)
    stack.callback(lock.release)
    config = load_config(arguments.conf, dict(arguments.overrides or ()))
    store, bookie = await open_storage(config, folder, Urls(), stack)
    ids = LedgerIdGenerator(store, block_ids=1)
    channel_of = {BOOKIE_ID: bookie}.__getitem__
    settings = config.fill(LedgerConfig)
    bookkeeper = BookKeeper(
        store,
        channel_of,
        bookies=lambda: [BOOKIE_ID],
        next_ledger_id=ids.next_id,
        rng=random.Random(),
        config=settings,
    )
    stack.push_async_callback(bookkeeper.close)
    driver = LedgerMetadataDriver(store, ids.next_id)
    reader = EntryReader(bookkeeper, driver, channel_of, settings.add_entry_timeout_sec)
    return Site({OWN_STORE: store}, [store], store, reader)


async def _cluster_site(tool: Tool, arguments: argparse.Namespace, stack: AsyncExitStack) -> Site:
    names: list[str] = list(dict.fromkeys(arguments.metadata_store))
    for connect in {*names, tool.connect, *filter(None, [arguments.configuration_store])}:
        await _check_place(connect, names, tool.connect, arguments)
    cluster = await tool.cluster()
    stores: dict[str, MetadataStore] = {name: await _open(name, stack) for name in names}
    configuration = list(stores.values())
    if arguments.configuration_store:
        configuration = [await _open(arguments.configuration_store, stack)]
    reader = EntryReader(cluster.bookkeeper, cluster.driver, cluster.channels, cluster.config.add_entry_timeout_sec)
    return Site(stores, configuration, cluster.store, reader)


async def _open(connect: str, stack: AsyncExitStack) -> ZooKeeperStore:
    store = await ZooKeeperStore.open(connect.removeprefix(SCHEME), call_timeout_seconds=CALL_SECONDS)
    stack.push_async_callback(store.close)
    return store


async def _check_place(connect: str, given: list[str], ledgers: str, arguments: argparse.Namespace) -> None:
    """Raises ToolError when the chroot is not there, so that it is not made by opening it, and when the same ZooKeeper
    has the metadata of a cluster that was not given and seems to use the ledgers at `ledgers`: it has its records
    beside them, or has no ledgers of its own."""
    try:
        place, beside = ConnectString.parse(connect), ConnectString.parse(ledgers)
        known = [ConnectString.parse(text) for text in given]
    except ValueError as error:
        raise ToolError(str(error)) from None
    servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in place.servers)
    async with AsyncExitStack() as stack:
        root = await _open(servers, stack)
        if place.chroot and await root.exists(place.chroot) is None:
            raise ToolError(f"{servers} has no {place.chroot}")
        if arguments.all_clusters_given:
            return
        for chroot in await _chroots(root, "", CHROOT_DEPTH_MAX):
            found = ConnectString(place.servers, chroot)
            if found not in known and (found == beside or await root.exists(chroot + LEDGERS_ROOT) is None):
                raise ToolError(
                    f"{servers} also has the metadata of a cluster at {chroot or '/'}, which may use the same ledgers: "
                    f"give --metadata-store zk:{servers}{chroot}, too, or --all-clusters-given if it uses others"
                )


async def _chroots(root: MetadataStore, path: str, depth: int) -> list[str]:
    """Returns the paths down to `depth` at which Pulsar clusters have their records."""
    names = await children_of(root, path or "/")
    found = [path] if MANAGED_LEDGERS[1:] in names else []
    for name in names:
        if depth and name not in LARGE_TREES:
            found += await _chroots(root, f"{path}/{name}", depth - 1)
    return found
