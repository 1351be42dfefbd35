"""Records below `/ledgers/underreplication`, against those that Apache's auditor and workers wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records import underreplication_record as records
from pulsar_proto.records.underreplication_record import UnderreplicatedLedger
from tests.pulsar_proto.vectors import Item, load, unhex

ITEMS = load("underreplication.json")


def of(part: str) -> list[Item]:
    found = [item for item in ITEMS if part in item["path"]]
    assert found, part
    return found


@pytest.mark.parametrize("item", of("/ledgers/0000"), ids=lambda item: item["path"][-13:])
def test_a_mark_is_found_where_java_puts_it_and_reads_as_java_wrote_it(item: Item) -> None:
    ledger_id = records.ledger_id_of_name(item["path"].rpartition("/")[2])
    assert ledger_id is not None
    assert records.mark_path(ledger_id) == item["path"]
    mark = UnderreplicatedLedger.parse(unhex(item["hex"]))
    assert mark.replicas
    assert mark.ctime_ms
    assert mark.serialize() == unhex(item["hex"])


@pytest.mark.parametrize("item", of("/locks/urL"), ids=lambda item: item["path"][-13:])
def test_a_lock_is_found_where_java_puts_it_and_reads_as_java_wrote_it(item: Item) -> None:
    ledger_id = records.ledger_id_of_name(item["path"].rpartition("/")[2])
    assert ledger_id is not None
    assert records.lock_path(ledger_id) == item["path"]
    assert records.lock_value(records.lock_holder(unhex(item["hex"]))) == unhex(item["hex"])


def test_the_other_records_are_javas() -> None:
    for item in of("auditorelection"):
        assert records.vote_value(records.voter(unhex(item["hex"]))) == unhex(item["hex"])
    assert unhex(of("LAYOUT")[0]["hex"]) == records.LAYOUT_VALUE
    records.check_layout(records.LAYOUT_VALUE)
    assert records.delay_of(unhex(of("lostBookieRecoveryDelay")[0]["hex"])) == 0
    time = records.check_time(unhex(of("checkallledgersctime")[0]["hex"]))
    assert time is not None
    assert records.check_time_value(time) == unhex(of("checkallledgersctime")[0]["hex"])


@given(
    st.lists(st.text(st.characters(blacklist_categories=["Cs"])), unique=True), st.none() | st.integers(0, 2**63 - 1)
)
def test_a_mark_reads_back(replicas: list[str], ctime: int | None) -> None:
    mark = UnderreplicatedLedger(tuple(replicas), ctime)
    assert UnderreplicatedLedger.parse(mark.serialize()) == mark


@given(st.integers(0, 2**63 - 1))
def test_every_ledger_id_has_its_own_name(ledger_id: int) -> None:
    assert records.ledger_id_of_name(records.mark_path(ledger_id).rpartition("/")[2]) == ledger_id


def test_a_further_mark_adds_its_replicas_once() -> None:
    assert UnderreplicatedLedger(("a", "b"), 1).merged(["b", "c"], 2) == UnderreplicatedLedger(("a", "b", "c"), 2)


def test_an_unknown_field_of_a_later_version_is_passed_over() -> None:
    assert UnderreplicatedLedger.parse(b'replica: "a"\nnews: 5\nctime: 7\n') == UnderreplicatedLedger(("a",), 7)


@pytest.mark.parametrize("name", ["urL1", "urL00000000001", "L0000000001", "urL000000000x", "urL0000000001x"])
def test_other_names_are_no_marks(name: str) -> None:
    assert records.ledger_id_of_name(name) is None


def test_damaged_records_are_named() -> None:
    with pytest.raises(MalformedRecord, match="LedgerFormat"):
        UnderreplicatedLedger.parse(b"\xff\x00")
    with pytest.raises(MalformedRecord, match="BASIC 2"):
        records.check_layout(b'type: "BASIC"\nversion: 2\n')
    with pytest.raises(MalformedRecord, match="number of seconds"):
        records.delay_of(b"soon")
    with pytest.raises(MalformedRecord, match="time of a check"):
        records.check_time(b"\x08")
