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
        trees = {root: await _trees(store, root) for root in NAMESPACE_ROOTS}
        averages = [_node(path, record) async for path, record in walk(store, AVERAGES)]
        # What is known is read last, so that a namespace that is made meanwhile is known.
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


async def _trees(store: MetadataStore, root: str) -> dict[str, list[Node]]:
    """Returns the records of each namespace below a root, under "tenant/namespace", and those of tenants that have no
    namespaces, under the tenant."""
    trees: dict[str, list[Node]] = {}
    async for path, record in walk(store, root):
        names = path.removeprefix(f"{root}/").split("/")
        tenant, name = names[0], "/".join(names[:2])
        if len(names) > 1:
            trees.pop(tenant, None)
        trees.setdefault(name, []).append(_node(path, record))
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
