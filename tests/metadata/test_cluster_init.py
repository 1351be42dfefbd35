"""The records of a new cluster have the bytes that Apache's standalone wrote, and are never written over others."""

import asyncio
import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from magnetar.metadata import cluster_init, paths
from magnetar.metadata.cluster_init import initialize_cluster, publish_cluster_urls
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import MetadataError, NoNodeError
from magnetar.metadata.store import MetadataStore, Op, Stat

VECTORS = Path(__file__).parents[1] / "vectors" / "cluster_records.json"
GOLDEN: dict[str, str] = json.loads(VECTORS.read_text())["records"]
BROKER_URL, WEB_URL = "pulsar://127.0.0.1:6670", "http://127.0.0.1:8095"


async def initialize(store: MetadataStore) -> int:
    return await initialize_cluster(store, "standalone", broker_service_url=BROKER_URL, web_service_url=WEB_URL)


async def value_of(store: MetadataStore, path: str) -> bytes:
    record = await store.get(path)
    assert record is not None, path
    return record.value


async def all_records(store: MetadataStore, path: str = "/") -> dict[str, bytes]:
    records = {path: await value_of(store, path)}
    for name in await store.children(path):
        records |= await all_records(store, f"{path.rstrip('/')}/{name}")
    return records


@pytest.mark.parametrize(
    "path",
    [
        "/admin/clusters/standalone",
        "/admin/policies/public",
        "/admin/policies/pulsar",
        "/admin/policies/pulsar/system",
        "/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign",
        "/ledgers/LAYOUT",
    ],
)
async def test_records_are_byte_for_byte_those_of_a_java_server(path: str) -> None:
    store = MemoryStore()
    await initialize(store)
    assert (await value_of(store, path)).decode() == GOLDEN[path]


async def test_the_default_namespace_is_what_java_made_before_it_was_changed_by_rest() -> None:
    golden = json.loads(GOLDEN["/admin/policies/public/default"])
    del golden["retention_policies"]
    golden["bundles"] = json.loads(GOLDEN["/admin/policies/pulsar/system"])["bundles"]
    store = MemoryStore()
    await initialize(store)
    assert await value_of(store, "/admin/policies/public/default") == cluster_init.to_json(golden)


async def test_the_empty_records_that_bookies_and_brokers_expect_exist() -> None:
    store = MemoryStore()
    await initialize(store)
    for path in ("/ledgers", "/ledgers/available", "/ledgers/available/readonly", "/managed-ledgers", "/namespace"):
        assert await value_of(store, path) == b"", path
    instance = uuid.UUID((await value_of(store, "/ledgers/INSTANCEID")).decode())
    assert instance.version == 4


async def test_a_second_start_writes_nothing(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "metadata.sqlite")
    assert await initialize(store) > 0
    assert store.commits == 1
    before = await all_records(store)
    assert await initialize(store) == 0
    assert store.commits == 1
    assert await all_records(store) == before
    await store.close()


async def test_what_exists_is_kept_and_what_is_missing_is_added() -> None:
    store = MemoryStore()
    await initialize(store)
    await store.put("/admin/policies/public", b"changed")
    await store.put("/ledgers/INSTANCEID", b"kept")
    await store.delete("/ledgers/available/readonly")
    await store.delete("/admin/policies/pulsar/system")
    assert await initialize(store) == 2
    assert await value_of(store, "/admin/policies/public") == b"changed"
    assert await value_of(store, "/ledgers/INSTANCEID") == b"kept"
    assert (await value_of(store, "/admin/policies/pulsar/system")).decode() == GOLDEN["/admin/policies/pulsar/system"]


async def test_two_servers_may_initialise_at_once() -> None:
    first = MemoryStore()
    second = first.session()
    made = await asyncio.gather(initialize(first), initialize(second))
    assert sorted(made)[0] == 0
    assert sorted(made)[1] > 0


class AlwaysFirst(MemoryStore):
    """A store where another server makes and deletes a record around each of our changes."""

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        await self.create("/ledgers")
        try:
            return await super().multi(ops)
        finally:
            await self.delete("/ledgers")


async def test_losing_every_round_to_others_ends_with_an_error() -> None:
    with pytest.raises(MetadataError, match="rounds"):
        await initialize(AlwaysFirst())


async def test_new_addresses_are_published_and_other_keys_stay() -> None:
    store = MemoryStore()
    await initialize(store)
    path = paths.cluster_path("standalone")
    await store.put(path, b'{"serviceUrl":"http://old:1","brokerServiceUrl":"pulsar://old:2","peerClusterNames":["x"]}')
    await publish_cluster_urls(store, "standalone", broker_service_url=BROKER_URL, web_service_url=WEB_URL)
    expected = {"serviceUrl": WEB_URL, "brokerServiceUrl": BROKER_URL, "peerClusterNames": ["x"]}
    assert json.loads(await value_of(store, path)) == expected
    await publish_cluster_urls(store, "standalone", broker_service_url=BROKER_URL, web_service_url=WEB_URL)
    stat = await store.exists(path)
    assert stat is not None
    assert stat.version == 2
    with pytest.raises(NoNodeError):
        await publish_cluster_urls(store, "other", broker_service_url=BROKER_URL, web_service_url=WEB_URL)


def test_values_that_a_broker_writes_later_are_as_in_java() -> None:
    assert cluster_init.local_policies_value().decode() == GOLDEN["/admin/local-policies/pulsar/system"]
    value = cluster_init.partitioned_topic_value(4, {"own": "me"})
    assert value.decode() == GOLDEN["/admin/partitioned-topics/acme/orders/p/persistent/x"]


@pytest.mark.parametrize(
    ("count", "boundaries"),
    [
        (1, ["0x00000000", "0xffffffff"]),
        (2, ["0x00000000", "0x80000000", "0xffffffff"]),
        (3, ["0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff"]),
    ],
)
def test_bundles_share_the_hash_range(count: int, boundaries: list[str]) -> None:
    assert cluster_init.bundles_data(count) == {"boundaries": boundaries, "numBundles": count}


def test_no_bundles_are_refused() -> None:
    with pytest.raises(ValueError, match="0 bundles"):
        cluster_init.bundles_data(0)


def test_paths_are_those_of_java() -> None:
    assert paths.managed_ledger_path("public/default/persistent/a%2Fb") == (
        "/managed-ledgers/public/default/persistent/a%2Fb"
    )
    assert paths.cursor_path("t/n/persistent/x", "my sub/1") == "/managed-ledgers/t/n/persistent/x/my+sub%2F1"
    assert paths.topics_path("t/n") == "/managed-ledgers/t/n/persistent"
    assert paths.local_policies_path("t/n") == "/admin/local-policies/t/n"
    assert paths.bundle_owner_path("t/n", "0x00000000_0xffffffff") == "/namespace/t/n/0x00000000_0xffffffff"
    assert paths.bookie_path("b:3181") == "/ledgers/available/b:3181"
    assert paths.bookie_path("b:3181", read_only=True) == "/ledgers/available/readonly/b:3181"
    assert paths.cookie_path("b:3181") == "/ledgers/cookies/b:3181"
