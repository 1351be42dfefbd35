"""What the reader of records takes from a cluster's metadata store."""

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.leaks.orphan_rules import OwnedBundle, Picture
from magnetar.storage.leaks.record_reader import AT_ONCE, read_references, walk
from pulsar_proto.pb import managed_ledger_pb2 as pb

TOPIC = "/managed-ledgers/t/n/persistent/x"


async def store_with(records: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for path, value in sorted(records.items()):  # Parents come before their children.
        await store.create(path, value, make_parents=True)
    return store


async def picture_of(records: dict[str, bytes]) -> Picture:
    picture = Picture()
    await read_references(await store_with(records), picture)
    return picture


def topic(ledger_id: int) -> bytes:
    return pb.ManagedLedgerInfo(ledgerInfo=[pb.ManagedLedgerInfo.LedgerInfo(ledgerId=ledger_id)]).SerializeToString()


def cursor(ledger_id: int) -> bytes:
    return pb.ManagedCursorInfo(cursorsLedgerId=ledger_id).SerializeToString()


async def test_topics_and_cursors_are_told_apart_by_their_place() -> None:
    old = "/managed-ledgers/t/cluster/n/persistent/y"
    picture = await picture_of(
        {TOPIC: topic(1), f"{TOPIC}/a%2Fb": cursor(2), old: topic(3), f"{old}/s": cursor(4), f"{TOPIC}-empty": b""}
    )
    assert picture.references.keys() == {1, 2, 3, 4}
    assert picture.cursors == {
        "t/n/persistent/x": {"a/b"},
        "t/n/persistent/x-empty": set(),
        "t/cluster/n/persistent/y": {"s"},
    }
    assert picture.blind == []


async def test_records_that_cannot_be_read_or_stand_at_no_known_place_are_blind_spots() -> None:
    picture = await picture_of(
        {
            TOPIC: b"\xff",
            f"{TOPIC}/s": b"",
            f"{TOPIC}/s/deeper": b"x",
            "/managed-ledgers/t/n/strange": b"x",
            "/schemas/t/n/x": b"\xff",
        }
    )
    assert sorted((each.path, each.owner) for each in picture.blind) == [
        ("/managed-ledgers/t/n/persistent/x", "t/n/persistent/x"),
        ("/managed-ledgers/t/n/persistent/x/s", "t/n/persistent/x"),
        ("/managed-ledgers/t/n/persistent/x/s/deeper", "t/n/persistent/x"),
        ("/managed-ledgers/t/n/strange", "t/n/strange"),
        ("/schemas/t/n/x", "t/n/x"),
    ]


async def test_owners_of_bundles_are_known_unless_they_stand_in_a_topic() -> None:
    picture = await picture_of({"/namespace/t/n/0x00000000_0x40000000": b"{}"})
    assert (picture.owned, picture.owners_known) == ([OwnedBundle("t/n", 0, 0x40000000)], True)
    units = "/managed-ledgers/pulsar/system/persistent/loadbalancer-service-unit-state"
    assert not (await picture_of({units: b""})).owners_known
    assert not (await picture_of({"/service_unit_state": b""})).owners_known


async def test_log_segments_are_read_and_other_records_beside_them_are_passed() -> None:
    picture = await picture_of(
        {"/pulsar/functions/a/logsegment": b"21474836485;12;1;2", "/stream/storage/x": b"\x00binary", "/stream/y": b"7"}
    )
    assert picture.references.keys() == {12}


async def test_a_walk_yields_every_record_of_a_wide_and_deep_tree() -> None:
    paths = [f"/tree/{number}/{deep}" for number in range(AT_ONCE + 5) for deep in ("a", "b/c")]
    store = await store_with(dict.fromkeys(paths, b"x"))
    found = [path async for path, record in walk(store, "/tree") if record.value]
    assert sorted(found) == sorted(paths)
    assert [path async for path, _ in walk(store, "/nothing")] == []
