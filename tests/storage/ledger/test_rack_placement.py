"""Ensembles over racks."""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.paths import BOOKIE_RACKS
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies
from magnetar.storage.ledger.rack_placement_rules import DEFAULT_RACK, RackAwareBookies, racks_in_record
from magnetar.storage.ledger.rack_table import RackTable
from tests.waiting import until

RACKS = {f"b{rack}{number}": f"/rack-{rack}" for rack in range(4) for number in range(3)}


def placement(racks: dict[str, str], seed: int = 0, *, min_racks: int = 2, enforce: bool = False) -> RackAwareBookies:
    return RackAwareBookies(
        lambda: list(racks),
        lambda bookie: racks.get(bookie, DEFAULT_RACK),
        Random(seed),
        min_racks=min_racks,
        enforce=enforce,
    )


def windows(members: tuple[str, ...], write_quorum: int) -> list[list[str]]:
    doubled = members * 2
    return [[RACKS[bookie] for bookie in doubled[i : i + write_quorum]] for i in range(len(members))]


@given(seed=st.integers(0, 1 << 30), size=st.integers(1, 12), data=st.data())
def test_each_write_quorum_spans_at_least_two_racks(seed: int, size: int, data: st.DataObject) -> None:
    write_quorum = data.draw(st.integers(1, size))
    members = placement(RACKS, seed).choose(size, write_quorum, avoid=())
    assert len(set(members)) == size
    for window in windows(members, write_quorum):
        assert len(set(window)) >= min(2, write_quorum)


@pytest.mark.parametrize("size", [10, 11, 12])
def test_racks_stay_apart_when_nearly_every_bookie_is_needed(size: int) -> None:
    for seed in range(200):
        members = placement(RACKS, seed, enforce=True).choose(size, 2, avoid=())
        assert len(set(members)) == size
        assert all(len(set(window)) == 2 for window in windows(members, 2))


@given(seed=st.integers(0, 1 << 30))
def test_three_copies_stand_in_three_racks(seed: int) -> None:
    assert len({RACKS[bookie] for bookie in placement(RACKS, seed).choose(3, 3, avoid=())}) == 3


@given(seed=st.integers(0, 1 << 30), index=st.integers(0, 2))
def test_a_replacement_keeps_the_racks_apart(seed: int, index: int) -> None:
    chooser = placement(RACKS, seed)
    members = chooser.choose(3, 3, avoid=())
    changed = chooser.replace(members, {index: members[index]}, 3, avoid={members[index]})
    assert changed[index] != members[index]
    assert [bookie for i, bookie in enumerate(changed) if i != index] == [
        bookie for i, bookie in enumerate(members) if i != index
    ]
    assert len({RACKS[bookie] for bookie in changed}) == 3


def test_two_regions_are_both_used_before_a_second_rack_of_one() -> None:
    racks = {"a": "/west/r1", "b": "/west/r2", "c": "/east/r1"}
    for seed in range(20):
        assert "c" in placement(racks, seed).choose(2, 2, avoid=())


def test_a_bookie_to_avoid_is_taken_only_for_want_of_others() -> None:
    racks = {"a": "/r1", "b": "/r1", "c": "/r2"}
    for seed in range(20):
        assert set(placement(racks, seed).choose(2, 2, avoid={"c"})) == {"a", "b"}
    assert set(placement(racks).choose(3, 3, avoid={"c"})) == {"a", "b", "c"}


def test_one_rack_is_refused_where_two_are_demanded() -> None:
    racks = {"a": "/r1", "b": "/r1"}
    assert set(placement(racks).choose(2, 2, avoid=())) == {"a", "b"}
    with pytest.raises(NotEnoughBookies, match="a write quorum in 1 racks, 2 are demanded"):
        placement(racks, enforce=True).choose(2, 2, avoid=())


def test_too_few_bookies_are_named() -> None:
    with pytest.raises(NotEnoughBookies, match="an ensemble of 3 needs more than the 2 writable"):
        placement({"a": "/r1", "b": "/r2"}).choose(3, 3, avoid=())
    with pytest.raises(NotEnoughBookies, match="no writable bookie is left to replace a"):
        placement({"a": "/r1", "b": "/r2"}).replace(("a", "b"), {0: "a"}, 2, avoid=())


def test_bookies_are_spread_over_all_racks_in_the_long_run() -> None:
    chooser = placement(RACKS, 5)
    used = Counter(bookie for _ in range(600) for bookie in chooser.choose(3, 3, avoid=()))
    assert set(used) == set(RACKS)
    assert max(used.values()) < 3 * min(used.values())


def test_pulsars_record_of_racks_is_read() -> None:
    record = {
        "default": {"127.0.0.1:3181": {"rack": "/r1", "hostname": "one"}, "127.0.0.1:3182": {"rack": "r2"}},
        "other": {"127.0.0.1:3183": {"hostname": "three"}},
    }
    assert racks_in_record(json.dumps(record).encode()) == {"127.0.0.1:3181": "/r1", "127.0.0.1:3182": "/r2"}
    assert racks_in_record(b"") == {}
    for wrong in (b"[1]", b"{", b'{"default": 3}'):
        with pytest.raises(ValueError):
            racks_in_record(wrong)


async def test_the_table_of_racks_follows_the_operators_record() -> None:
    store = MemoryStore()
    table = RackTable(store)
    await table.start()
    assert table.rack_of("b") == DEFAULT_RACK
    await store.create(BOOKIE_RACKS, b'{"default": {"b": {"rack": "/r1"}}}')
    await until(lambda: table.rack_of("b") == "/r1")
    await store.put(BOOKIE_RACKS, b"not JSON")
    await store.put(BOOKIE_RACKS, b'{"default": {"b": {"rack": "/r2"}}}')
    await until(lambda: table.rack_of("b") == "/r2")
    await store.delete(BOOKIE_RACKS)
    await until(lambda: table.rack_of("b") == DEFAULT_RACK)
    await table.stop()
