"""Which stored entries a harm can have touched, read from the undamaged files independently of replay and index."""

import struct
from collections.abc import Mapping
from pathlib import Path

from magnetar.storage.bookie.file_inspection import SeenBatch, SeenBlock, journal_files, read_entry_log, read_journals
from magnetar.storage.bookie.last_mark import LastMarkFile
from tests.damage.scenery import Position

_IDS = struct.Struct(">qq")
Ranges = Mapping[Path, tuple[int, int]]


def exposed(folder: Path, ranges: Ranges) -> set[Position]:
    """Returns the entries of the undamaged `folder` that have a copy in one of these parts of its files. Of a journal
    only the entries behind the mark count, because all others are in entry logs."""
    found: set[Position] = set()
    for file, (first, end) in ranges.items():
        if file.suffix == ".journal":
            mark = LastMarkFile(str(folder / "ledgers" / "lastMark")).load()
            journal_id = int(file.stem, 16)
            for seen in read_journals([str(file)]):
                if not isinstance(seen, SeenBatch) or seen.offset >= end:
                    continue
                behind = mark is None or (journal_id, seen.offset) >= mark.positions[0][:2]
                if behind and seen.offset + 44 + seen.header.length > first:
                    found.update(map(_IDS.unpack_from, seen.entries))
        elif file.suffix == ".log" and file.parent.name != "index":
            for block in read_entry_log(str(file)):
                if isinstance(block, SeenBlock) and first - block.block.header.total < block.offset < end:
                    found.update((block.block.header.ledger_id, entry_id) for entry_id in block.block.ids)
    return found


def looks_unfinished(damaged: Path, ranges: Ranges) -> bool:
    """Returns whether the harm is at the end of the last journal. No whole batch follows it there, so nothing tells it
    from a write that a crash interrupted (docs/DATA_FILES.md, section 2)."""
    files = journal_files([str(damaged / "journal")])[0]
    for file, (first, _) in ranges.items():
        if str(file) not in files[-1:]:
            return False
        if any(isinstance(seen, SeenBatch) and seen.offset >= first for seen in read_journals([str(file)])):
            return False
    return True
