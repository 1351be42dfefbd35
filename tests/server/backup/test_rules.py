"""The rules of backups: what is asked for, what a stream and a manifest say, and what is noticed about damage."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.metadata.embedded.record_rows import Row
from magnetar.server.backup.backup_errors import BackupError, StreamError
from magnetar.server.backup.block_rules import block, decode_entries, decode_rows, encode_entries, encode_rows
from magnetar.server.backup.manifest_rules import (
    FilePart,
    LedgerCopy,
    Manifest,
    ManifestError,
    grown,
    held_of,
    ledger_file,
    obsolete_files,
    parse_manifest,
)
from magnetar.server.backup.stream_rules import Frame, FrameReader, Held, Kind, decode_held, encode_held, frame

HISTORY = bytes(range(16))
NUMBERS = st.integers(-(2**63), 2**63 - 1)
LEDGERS = st.dictionaries(st.integers(0, 2**62), st.integers(-1, 2**62), max_size=20)
ENTRY_IDS = st.sets(st.integers(0, 60), max_size=40).map(sorted)
ROWS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
        st.binary(max_size=20),
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.integers(0, 2**32 - 1),
    ),
    max_size=5,
)


def entry(ledger_id: int, entry_id: int) -> bytes:
    return ledger_id.to_bytes(8, "big") + entry_id.to_bytes(8, "big") + b"payload" * (entry_id % 3)


def runs_of(ids: list[int]) -> list[range]:
    runs: list[range] = []
    for entry_id in ids:
        if runs and runs[-1].stop == entry_id:
            runs[-1] = range(runs[-1].start, entry_id + 1)
        else:
            runs.append(range(entry_id, entry_id + 1))
    return runs


@given(ROWS)
def test_records_come_back_from_their_block(rows: list[Row]) -> None:
    assert decode_rows(encode_rows(rows)) == rows


@given(ENTRY_IDS)
def test_entries_come_back_from_their_block(ids: list[int]) -> None:
    body = encode_entries([entry(5, entry_id) for entry_id in ids])
    assert list(decode_entries(body, 5)) == [(entry_id, entry(5, entry_id)) for entry_id in ids]


@given(st.binary(max_size=60))
def test_no_bytes_make_the_decoders_raise_anything_else(data: bytes) -> None:
    for decode in (decode_rows, lambda body: list(decode_entries(body, 5)), decode_held):
        with suppress(StreamError):
            decode(data)


def test_entries_of_another_ledger_or_out_of_order_are_refused() -> None:
    for wrong in ([entry(6, 0)], [entry(5, 1), entry(5, 1)], [entry(5, 2), entry(5, 1)]):
        with pytest.raises(StreamError):
            list(decode_entries(encode_entries(wrong), 5))


@given(st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=30)), max_size=6), st.data())
def test_frames_come_out_of_a_stream_however_it_is_cut(frames: list[tuple[Kind, bytes]], data: st.DataObject) -> None:
    stream = b"".join(frame(kind, body) for kind, body in frames)
    reader, found, at = FrameReader(), list[Frame](), 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += reader.feed(stream[at : at + size])
        at += size
    assert [(each.kind, each.body) for each in found] == frames
    assert reader.is_between_frames


@given(st.binary(min_size=1, max_size=30), st.data())
def test_a_flipped_bit_in_a_stream_is_noticed(body: bytes, data: st.DataObject) -> None:
    stream = bytearray(frame(Kind.ENTRIES, body))
    bit = data.draw(st.integers(8, 8 * len(stream) - 1))  # the first byte is the kind
    stream[bit // 8] ^= 1 << bit % 8
    reader = FrameReader()
    try:
        assert list(reader.feed(bytes(stream))) == []
        assert not reader.is_between_frames
    except StreamError:
        pass


@given(LEDGERS)
def test_a_server_learns_what_the_client_has(ledgers: dict[int, int]) -> None:
    assert decode_held(encode_held(Held(HISTORY, ledgers))) == Held(HISTORY, ledgers)
    assert decode_held(b"") == Held(b"", {})


@given(LEDGERS, st.integers(0, 100))
def test_a_request_that_is_too_long_names_fewer_ledgers_and_nothing_wrong(ledgers: dict[int, int], size: int) -> None:
    told = decode_held(encode_held(Held(HISTORY, ledgers), size))
    assert told.last_entry_ids.items() <= ledgers.items()


@given(LEDGERS, st.integers(0, 2**62))
def test_only_a_backup_of_the_same_history_is_gone_on_from(ledgers: dict[int, int], ledger_id: int) -> None:
    held = Held(HISTORY, ledgers)
    assert held.first_wanted(HISTORY, ledger_id) == ledgers.get(ledger_id, -1) + 1
    assert held.first_wanted(b"\1" * 16, ledger_id) == 0


@given(st.lists(st.tuples(ENTRY_IDS, st.integers(0, 60)), max_size=4))
def test_a_copy_that_grew_in_steps_knows_each_missing_entry(steps: list[tuple[list[int], int]]) -> None:
    copy, there, end = LedgerCopy(), set[int](), 0
    for ids, more in steps:
        arrived = [end + entry_id for entry_id in ids if entry_id < more]
        copy = grown(copy, end, runs_of(arrived), end + more - 1, FilePart("f", len(there), 0))
        there.update(arrived)
        end += more
    missing = {entry_id for first, last in copy.missing for entry_id in range(first, last + 1)}
    assert missing == set(range(end)) - there
    assert copy.entries == len(there)
    assert copy.last_entry_id == end - 1


def manifest(**changes: Any) -> Manifest:
    copy = LedgerCopy(FilePart(ledger_file(3, 1), 10, 99), 4, 4, ((2, 2),), "ab")
    return replace(
        Manifest(
            cluster="standalone",
            version="1",
            instance_id="i",
            history=HISTORY.hex(),
            generation=2,
            time="2026-01-01T00:00:00+00:00",
            records=FilePart("metadata-2.records", 5, 7),
            ledgers={3: copy, 4: LedgerCopy()},
        ),
        **changes,
    )


def test_a_manifest_comes_back_from_its_text() -> None:
    assert parse_manifest(manifest().to_json()) == manifest()


@given(st.data())
def test_a_manifest_that_was_changed_is_refused(data: st.DataObject) -> None:
    text = manifest().to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from('0a}x"'))
    changed = text[:at] + other + text[at + 1 :]
    with suppress(ManifestError):
        assert parse_manifest(changed) == manifest()


def test_a_manifest_cannot_name_files_of_other_folders() -> None:
    for name in ("../../etc/passwd", "/etc/passwd", "3-1.entries/x", "3-1.entries\n"):
        with pytest.raises(BackupError, match="names a file"):
            parse_manifest(manifest(ledgers={3: LedgerCopy(FilePart(name, 1, 1))}).to_json())
        with pytest.raises(BackupError, match="names a file"):
            parse_manifest(manifest(records=FilePart(name, 1, 1)).to_json())


def test_a_ledger_whose_file_is_gone_or_too_short_is_asked_for_anew() -> None:
    assert held_of(None, {}) == Held(b"", {})
    assert held_of(manifest(), {"ledgers/3-1.entries": 10}) == Held(HISTORY, {3: 4})
    assert held_of(manifest(), {"ledgers/3-1.entries": 12}) == Held(HISTORY, {3: 4})
    assert held_of(manifest(), {"ledgers/3-1.entries": 9}) == Held(HISTORY, {})
    assert held_of(manifest(), {}) == Held(HISTORY, {})


def test_only_files_of_a_backup_that_the_manifest_does_not_name_are_obsolete() -> None:
    found = {
        "manifest.json",
        "LOCK",
        "notes.txt",
        "ledgers/notes",
        "metadata-1.records",
        "metadata-2.records",
        "ledgers/3-1.entries",
        "ledgers/3-2.entries",
        "ledgers/9-1.entries",
    }
    assert obsolete_files(found, manifest()) == ["ledgers/3-2.entries", "ledgers/9-1.entries", "metadata-1.records"]


def test_a_block_that_announces_too_much_is_refused_before_it_is_read() -> None:
    head = bytes([Kind.ENTRIES]) + (1 << 30).to_bytes(4, "big") + bytes(4)
    with pytest.raises(StreamError, match="1073741824"):
        list(FrameReader().feed(head))
    assert len(block(b"abc")) == 11
