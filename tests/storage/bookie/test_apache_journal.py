"""Journals of Apache's bookie, as bytes: what is read, and where reading ends.

`compat_tests/bookkeeper/test_journal.py` has a journal that Apache's bookie wrote.
"""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.apache_journal import ApacheRecord, apache_journals, read_apache_journal
from magnetar.storage.bookie.file_inspection import FileFault

HEADER = struct.pack(">4si504x", b"BKLG", 6)


def record(ledger_id: int, entry_id: int, rest: bytes = b"") -> bytes:
    return struct.pack(">iqq", 16 + len(rest), ledger_id, entry_id) + rest


def padding(size: int) -> bytes:
    return struct.pack(">ii", -0x100, size) + bytes(size)


def written(folder: Path, content: bytes, name: str = "1a.txn") -> str:
    (folder / "current").mkdir(exist_ok=True)
    path = folder / "current" / name
    path.write_bytes(content)
    return str(path)


def test_entries_and_control_records_are_read_and_padding_is_passed_over(tmp_path: Path) -> None:
    content = HEADER + record(3, -0x1000, b"key") + padding(9) + record(3, 0, b"entry") + record(3, -0x2000) + bytes(99)
    found = list(read_apache_journal(written(tmp_path, content)))
    assert all(isinstance(each, ApacheRecord) for each in found)
    assert [(each.ledger_id, each.control) for each in found if isinstance(each, ApacheRecord)] == [
        (3, "ledger key"),
        (3, ""),
        (3, "fence"),
    ]
    assert isinstance(found[1], ApacheRecord)
    assert (found[1].entry_id, found[1].data[16:]) == (0, b"entry")


def test_journals_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("ff.txn", "9.txn", "10a.txn", "lastId", "9.txn.old"):
        written(tmp_path, HEADER, name)
    names = [Path(path).name for path in apache_journals(str(tmp_path))]
    assert names == ["9.txn", "ff.txn", "10a.txn"]
    assert apache_journals(str(tmp_path / "current")) == []


@pytest.mark.parametrize(
    ("content", "is_unfinished"),
    [
        (b"", False),
        (b"BKLG", False),
        (struct.pack(">4si504x", b"BKLG", 99), False),
        (b"MGJF" + bytes(508), False),
        (HEADER + record(1, 0) + struct.pack(">i", -5), False),
        (HEADER + record(1, 0) + struct.pack(">i", 15) + bytes(40), False),
        (HEADER + record(1, 0) + struct.pack(">i", 1 << 30), False),
        (HEADER + record(1, 0) + struct.pack(">ii", -0x100, -1), False),
        (HEADER + record(1, 0) + record(1, 1, b"lost")[:-1], True),
    ],
)
def test_reading_ends_at_damage_and_tells_the_place(content: bytes, is_unfinished: bool, tmp_path: Path) -> None:
    *before, last = read_apache_journal(written(tmp_path, content))
    assert isinstance(last, FileFault)
    assert last.unfinished is is_unfinished
    assert len(before) == (len(content) > 512)


@given(st.binary(max_size=200))
def test_no_bytes_stop_the_reader(tmp_path_factory: pytest.TempPathFactory, garbage: bytes) -> None:
    path = written(tmp_path_factory.mktemp("garbage"), HEADER + garbage)
    assert sum(isinstance(found, FileFault) for found in read_apache_journal(path)) <= 1
