"""Reads the trees in which records may be left over, and has `znode_rules` judge them."""

from collections.abc import Mapping, Sequence

from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore, Record
from magnetar.storage.leaks.orphan_rules import Caution
from magnetar.storage.leaks.record_reader import children_of, walk
from magnetar.storage.leaks.znode_rules import (
    NAMESPACE_ROOTS,
    Known,
    Leftover,
    Node,
    leftover_brokers,
    leftover_marks,
    leftover_namespaces,
    leftover_parents,
    leftover_tenants,
)
from pulsar_proto.records import underreplication_record

BROKERS = "/loadbalance/brokers"
AVERAGES = "/loadbalance/broker-time-average"


async def read_leftovers(
    stores: Mapping[str, MetadataStore],
    configuration: Sequence[MetadataStore],
    ledgers: MetadataStore,
    listed: set[int],
    caution: Caution,
) -> list[Leftover]:
    """Returns all leftovers of a site. `listed` are the ledgers that are there. Raises MetadataError."""
    before_ms = caution.before_ms
    found: list[Leftover] = []
    for name, store in stores.items():
        known = await _known(store, configuration)
        trees = {root: await _trees(store, root, known) for root in NAMESPACE_ROOTS}
        averages = [_node(path, record) async for path, record in walk(store, AVERAGES)]
        # What is known is read again, so that a namespace that was made meanwhile is known.
        known = await _known(store, configuration)
        for root, tree in trees.items():
            found += leftover_namespaces(name, root, tree, known, before_ms)
        found += leftover_brokers(name, averages, known, before_ms)
        if store in configuration:
            tenants = [f"{paths.POLICIES}/{tenant}" for tenant in await children_of(store, paths.POLICIES)]
            nodes = [_node(path, record) for path in tenants if (record := await store.get(path)) is not None]
            found += leftover_tenants(name, nodes, known, before_ms)
    found += leftover_marks(await _marks(ledgers), listed, before_ms)
    nodes = []
    children: dict[str, int] = {}
    for top in await children_of(ledgers, paths.LEDGERS_ROOT):
        if top.isdecimal():
            await _parents(ledgers, f"{paths.LEDGERS_ROOT}/{top}", nodes, children)
    return [*found, *leftover_parents(nodes, children, before_ms)]


async def _known(store: MetadataStore, configuration: Sequence[MetadataStore]) -> Known:
    tenants: set[str] = set()
    namespaces: set[str] = set()
    for one in configuration:
        for tenant in await children_of(one, paths.POLICIES):
            tenants.add(tenant)
            namespaces |= {f"{tenant}/{name}" for name in await children_of(one, f"{paths.POLICIES}/{tenant}")}
    return Known(frozenset(tenants), frozenset(namespaces), frozenset(await children_of(store, BROKERS)))


async def _trees(store: MetadataStore, root: str, known: Known) -> dict[str, list[Node]]:
    """Returns the records of each namespace below a root that is not known, under "tenant/namespace", and those of
    tenants that have no namespaces there, under the tenant."""
    trees: dict[str, list[Node]] = {}
    for tenant in await children_of(store, root):
        names = [f"{tenant}/{name}" for name in await children_of(store, f"{root}/{tenant}")]
        for name in names or [tenant]:
            if name not in known.namespaces and (record := await store.get(f"{root}/{name}")) is not None:
                below = [_node(path, each) async for path, each in walk(store, f"{root}/{name}")]
                trees[name] = [_node(f"{root}/{name}", record), *below]
    return trees


async def _marks(ledgers: MetadataStore) -> dict[int, Node]:
    marks = {}
    async for path, record in walk(ledgers, underreplication_record.LEDGERS):
        ledger_id = underreplication_record.ledger_id_of_name(path.rpartition("/")[2])
        if ledger_id is not None:
            marks[ledger_id] = _node(path, record)
    return marks


async def _parents(ledgers: MetadataStore, path: str, nodes: list[Node], children: dict[str, int]) -> None:
    """Adds the parents of ledgers' records at and below `path`, without reading the ledgers' own records."""
    record = await ledgers.get(path)
    if record is None:
        return
    nodes.append(_node(path, record))
    names = await children_of(ledgers, path)
    children[path] = len(names)
    for name in names:
        if name.isdecimal():
            await _parents(ledgers, f"{path}/{name}", nodes, children)


def _node(path: str, record: Record) -> Node:
    stat = record.stat
    return Node(path, stat.version, stat.modified_ms, stat.ephemeral, bool(record.value))
