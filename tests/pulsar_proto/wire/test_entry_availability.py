"""Lists of entries: the bytes that Apache's bookie sent, round trips, and peers that lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import entry_availability
from tests.pulsar_proto.vectors import load, unhex


def test_apaches_list_decodes_and_encodes_to_the_same_bytes() -> None:
    answers = [x["response"] for x in load("bookkeeper_exchanges.json") if "GET_LIST_OF_ENTRIES" in x["name"]]
    responses = [pb.Response.FromString(unhex(answer)[4:]) for answer in answers if answer]
    (blob,) = {response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger for response in responses}
    assert entry_availability.decode(blob) == [range(2), range(5, 6)]
    assert entry_availability.encode([range(2), range(5, 6)]) == blob


def test_striped_entries_take_one_group() -> None:
    runs = [range(start, start + 2) for start in range(0, 30_000, 3)]
    blob = entry_availability.encode(runs)
    assert len(blob) == 64 + 24
    assert entry_availability.decode(blob) == runs


def test_neighbouring_runs_are_one() -> None:
    assert entry_availability.decode(entry_availability.encode([range(3), range(3, 5)])) == [range(5)]


@given(st.sets(st.integers(0, 300)))
def test_any_set_of_entries_survives(ids: set[int]) -> None:
    blob = entry_availability.encode(range(i, i + 1) for i in sorted(ids))
    found = [i for run in entry_availability.decode(blob) for i in run]
    assert sorted(found) == sorted(ids)
    assert len(found) == len(ids)


def test_many_groups_of_many_sequences_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_availability, "GROUPS_MAX", 100)
    group = (0).to_bytes(8, "big") + (98).to_bytes(8, "big") + (1).to_bytes(4, "big") + (2).to_bytes(4, "big")

    def blob(groups: int) -> bytes:
        return (bytes(4) + groups.to_bytes(4, "big")).ljust(64, b"\0") + group * groups

    assert len(entry_availability.decode(blob(2))) == 100
    with pytest.raises(MalformedFrame):
        entry_availability.decode(blob(3))


@given(st.binary(max_size=200))
def test_damage_is_refused_or_decodes_but_never_runs_away(blob: bytes) -> None:
    try:
        runs = entry_availability.decode(blob)
    except MalformedFrame:
        return
    assert len(runs) <= entry_availability.GROUPS_MAX


@pytest.mark.parametrize(
    "group",
    [(0, 1 << 62, 1, 1), (0, 0, 0, 0), (5, 0, 1, 1), (0, 0, -1, 0), (0, 3, 1, 2), (0, 3, 1, 0), (0, 0, 1, 4)],
)
def test_groups_that_make_no_sense_are_refused(group: tuple[int, int, int, int]) -> None:
    first, last, size, period = group
    body = first.to_bytes(8, "big") + last.to_bytes(8, "big")
    body += size.to_bytes(4, "big", signed=True) + period.to_bytes(4, "big")
    with pytest.raises(MalformedFrame):
        entry_availability.decode((bytes(4) + (1).to_bytes(4, "big")).ljust(64, b"\0") + body)
