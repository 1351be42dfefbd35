"""The store over two: it passes the contract, and each record is in the store where Apache's brokers look for it."""

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.routed_store import RoutedStore
from magnetar.metadata.store import CreateOp, EventType
from tests.metadata.record_contract import RecordContract
from tests.metadata.recorder import Recorder
from tests.metadata.watch_contract import WatchContract

SHARED = (
    paths.policies_path("t/n"),
    paths.cluster_path("c"),
    f"{paths.cluster_path('c')}/namespaceIsolationPolicies",
    paths.partitioned_topic_path("t/n", "persistent", "topic"),
    f"{paths.RESOURCE_GROUPS}/group",
    "/admin/flags/policies-readonly",
)
LOCAL = (
    paths.local_policies_path("t/n"),
    "/admin/configuration",
    "/admin/policies-of-others",
    "/loadbalance/leader",
    paths.bundle_owner_path("t/n", "0x00000000_0xffffffff"),
    paths.managed_ledger_path("t/n/persistent/topic"),
    f"{paths.SCHEMAS}/t/n/topic",
    paths.BOOKIE_RACKS,
    paths.LAYOUT,
)


class TestRoutedStore(RecordContract, WatchContract):
    @pytest.fixture
    async def store(self) -> RoutedStore:
        return RoutedStore(MemoryStore(), MemoryStore())


async def test_each_record_is_where_apaches_brokers_look_for_it() -> None:
    local, configuration = MemoryStore(), MemoryStore()
    store = RoutedStore(local, configuration)
    for path in (*SHARED, *LOCAL):
        await store.create(path, path.encode(), make_parents=True)
    for path in SHARED:
        assert await local.get(path) is None
        assert await configuration.get(path) is not None
    for path in LOCAL:
        assert await configuration.get(path) is None
        assert await local.get(path) is not None


async def test_the_children_of_a_path_with_both_kinds_are_those_of_both() -> None:
    local, configuration = MemoryStore(), MemoryStore()
    store = RoutedStore(local, configuration)
    for path in (*SHARED, *LOCAL):
        await store.create(path, make_parents=True)
    await local.create("/admin/clusters/foreign", make_parents=True)
    await configuration.create("/admin/local-policies/foreign", make_parents=True)
    admin = "clusters configuration flags local-policies partitioned-topics policies policies-of-others resourcegroups"
    assert await store.children("/admin") == admin.split()
    assert await store.children("/") == sorted({path.split("/")[1] for path in LOCAL})
    assert await store.children(paths.CLUSTERS) == ["c"]


async def test_a_change_of_both_stores_is_refused_as_one() -> None:
    local, configuration = MemoryStore(), MemoryStore()
    store = RoutedStore(local, configuration)
    with pytest.raises(ValueError, match="two metadata stores"):
        await store.multi([CreateOp("/admin"), CreateOp("/admin/policies")])
    assert await local.children("/") == []
    await configuration.create("/admin")
    await store.multi([CreateOp("/admin/policies"), CreateOp("/admin/policies/t")])
    assert await configuration.children("/admin/policies") == ["t"]


async def test_a_watch_of_both_hears_each_record_from_its_own_store() -> None:
    local, configuration = MemoryStore(), MemoryStore()
    await local.create("/admin")
    await configuration.create("/admin")
    store = RoutedStore(local, configuration)
    heard = Recorder()
    cancel = store.watch("/admin", heard, recursive=True)
    await configuration.create("/admin/policies")
    await local.create("/admin/configuration")
    await local.create("/admin/clusters")
    await configuration.create("/admin/local-policies")
    children = (EventType.CHILDREN_CHANGED, "/admin")
    mine = [(EventType.CREATED, "/admin/policies"), children, (EventType.CREATED, "/admin/configuration"), children]
    await heard.until(*mine, children, children)
    cancel()
    await configuration.put("/admin/policies", b"")
    await heard.until(*mine, children, children)


async def test_locks_belong_to_the_session_of_the_local_store() -> None:
    local = MemoryStore().session()
    store = RoutedStore(local, MemoryStore())
    await store.create("/loadbalance/leader", ephemeral=True, make_parents=True)
    assert store.session_id == local.session_id
    assert await store.owns("/loadbalance/leader")
