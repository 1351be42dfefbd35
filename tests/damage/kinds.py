"""Says which kind of file each file of a data folder is, by its place and content. A file of a new kind gets its own
name as its kind."""

from collections import defaultdict
from pathlib import Path

from magnetar.storage.bookie import entry_log_format

NO_DATA = {"LOG", "LOG.old", "LOCK", "magnetar.lock"}
"""Files that hold text for people, or that are only locked. No harm to them may have any effect."""


def kinds_of(folder: Path) -> dict[str, list[Path]]:
    """Returns the files by kind, each kind in the order of the names."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[_kind(path, folder)].append(path)
    journals = found.pop("journal", [])
    if journals:
        found["journal, current"] = journals[-1:]
    if journals[:-1]:
        found["journal, older"] = journals[:-1]
    return dict(found)


def _kind(path: Path, folder: Path) -> str:
    place = path.relative_to(folder).parent
    match path.suffix:
        case ".journal":
            return "journal"
        case ".spare":
            return "journal, spare"
        case ".sst":
            return "index, table"
        case ".log" if place.name == "index":
            return "index, log"
        case ".log":
            return "entry log, closed" if _has_footer(path) else "entry log, current"
    for start in ("MANIFEST", "OPTIONS"):
        if path.name.startswith(start):
            return f"index, {start}"
    return path.name if path.name == "VERSION" else str(place / path.name)


def _has_footer(path: Path) -> bool:
    end = path.read_bytes()[-entry_log_format.FOOTER_END_SIZE :]
    return entry_log_format.footer_offset(end) is not None
