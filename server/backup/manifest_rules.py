"""The manifest of a backup: which files belong to it, how long they are, and their checksums.

The folder of a backup holds `manifest.json`, a file with the metadata, and a file for each ledger that has entries.
Files only grow: a manifest names the first N bytes of a file, and what stands behind them belongs to nobody, because a
backup that broke off may have left it. So an older manifest stays true until the next one has taken its place.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from magnetar.server.backup.backup_errors import BackupError
from magnetar.server.backup.stream_rules import Held
from pulsar_proto.checksum import crc32c

MANIFEST_FORMAT = 1
MANIFEST = "manifest.json"
LEDGERS = "ledgers"
"""The folder of the ledgers' files, inside the backup's folder."""
_LEDGER_FILE = re.compile(r"\d+-\d+\.entries")
_RECORDS_FILE = re.compile(r"metadata-\d+\.records")


class ManifestError(BackupError):
    """The manifest cannot be read."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The first `size` bytes of a file, and their CRC32C. `name` is empty when there is no file because there is no
    content."""

    name: str = ""
    size: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    """What a backup has of one ledger."""

    part: FilePart = FilePart()
    last_entry_id: int = -1
    entries: int = 0
    missing: tuple[tuple[int, int], ...] = ()
    """The first and the last id of each run of entries that the server could not read, or did not have."""
    master_key: str = ""
    """In hexadecimal; BookKeeper asks a ledger's writers and recoverers for it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One complete backup."""

    cluster: str
    version: str
    """The version of Magnetar that the server had."""
    instance_id: str
    history: str
    """The history of the server's metadata, in hexadecimal. A backup goes on only within one history."""
    generation: int
    """How many backups were made in this folder, with this one."""
    time: str
    """The moment of the backup, ISO 8601."""
    records: FilePart
    ledgers: Mapping[int, LedgerCopy] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the text of the manifest, whose last field is the checksum of all others."""
        fields = asdict(self) | {
            "format": MANIFEST_FORMAT,
            "ledgers": {str(ledger_id): asdict(copy) for ledger_id, copy in sorted(self.ledgers.items())},
        }
        return json.dumps(fields | {"checksum": _checksum(fields)}, indent=1) + "\n"

    def files(self) -> set[str]:
        """Returns the names of all files that belong to the backup, relative to its folder."""
        return {self.records.name, *(f"{LEDGERS}/{copy.part.name}" for copy in self.ledgers.values() if copy.part.name)}


def parse_manifest(text: str) -> Manifest:
    """Returns the manifest. Raises ManifestError when the text is no manifest of this format, or was changed."""
    try:
        fields = json.loads(text)
        checksum = fields.pop("checksum")
        if fields.get("format") != MANIFEST_FORMAT:
            raise ManifestError(f"{MANIFEST} has format {fields.get('format')}; this version knows {MANIFEST_FORMAT}")
        if checksum != _checksum(fields):
            raise ManifestError(f"{MANIFEST} is damaged: it does not fit its checksum")
        del fields["format"]
        records = FilePart(**fields.pop("records"))
        ledgers = {int(key): _copy_of(told) for key, told in fields.pop("ledgers").items()}
        manifest = Manifest(records=records, ledgers=ledgers, **fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ManifestError(f"{MANIFEST} is damaged: {error}") from None
    for name, pattern in [
        (records.name, _RECORDS_FILE),
        *((copy.part.name, _LEDGER_FILE) for copy in ledgers.values()),
    ]:
        if name and not pattern.fullmatch(name):
            raise ManifestError(f"{MANIFEST} names a file {name!r}, which no backup has")
    return manifest


def held_of(manifest: Manifest | None, sizes: Mapping[str, int]) -> Held:
    """Returns what need not be read again: the ledgers whose files, by their sizes, can be whole."""
    if manifest is None:
        return Held(b"", {})
    return Held(
        bytes.fromhex(manifest.history),
        {
            ledger_id: copy.last_entry_id
            for ledger_id, copy in manifest.ledgers.items()
            if copy.part.name and sizes.get(f"{LEDGERS}/{copy.part.name}", -1) >= copy.part.size
        },
    )


def obsolete_files(found: Collection[str], manifest: Manifest) -> list[str]:
    """Returns which of the backup's files the manifest no longer names. Other people's files are left alone."""
    ours = (name for name in found if _RECORDS_FILE.fullmatch(name) or _LEDGER_FILE.fullmatch(name.rpartition("/")[2]))
    return sorted(set(ours) - manifest.files())


def records_file(generation: int) -> str:
    return f"metadata-{generation}.records"


def ledger_file(ledger_id: int, generation: int) -> str:
    """Returns the name of a new file. The generation makes it another name than that of a file with older content."""
    return f"{ledger_id}-{generation}.entries"


def grown(copy: LedgerCopy, first: int, ids: Collection[range], last_entry_id: int, part: FilePart) -> LedgerCopy:
    """Returns the copy after entries were added to it: those of `ids`, which ascend, out of `first` to
    `last_entry_id`."""
    missing, expected = list(copy.missing), first
    for run in ids:
        if run.start > expected:
            missing.append((expected, run.start - 1))
        expected = run.stop
    if expected <= last_entry_id:
        missing.append((expected, last_entry_id))
    return replace(
        copy,
        part=part,
        last_entry_id=last_entry_id,
        entries=copy.entries + sum(map(len, ids)),
        missing=tuple(missing),
    )


def _copy_of(told: dict[str, Any]) -> LedgerCopy:
    part, missing = FilePart(**told.pop("part")), tuple((first, last) for first, last in told.pop("missing"))
    return LedgerCopy(part=part, missing=missing, **told)


def _checksum(fields: Mapping[str, Any]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())
