"""Reads a backup and compares every byte with the manifest. All calls block."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from magnetar.metadata.embedded.record_rows import Row, load_tree
from magnetar.metadata.errors import StoreDamagedError
from magnetar.server.backup.backup_errors import DamageError, StreamError
from magnetar.server.backup.backup_folder import read_manifest
from magnetar.server.backup.block_rules import BLOCK_HEAD, check_body, check_length, decode_entries, decode_rows
from magnetar.server.backup.manifest_rules import LEDGERS, FilePart, LedgerCopy, Manifest
from pulsar_proto.checksum import crc32c
from pulsar_proto.counted import counted
from pulsar_proto.records.ledger_record import ledger_id_of_path


def verify(path: Path) -> tuple[Manifest, list[DamageError]]:
    """Returns the manifest of the backup in a folder and everything that contradicts it, at most one finding for each
    file. Raises ManifestError, BackupError when there is no backup, and OSError."""
    manifest = read_manifest(path)
    damages: list[DamageError] = []
    try:
        rows = read_records(path, manifest)
        named = {ledger_id for row in rows if (ledger_id := ledger_id_of_path(row[0])) is not None}
        if named != manifest.ledgers.keys():
            raise DamageError(manifest.records.name, 0, "its ledgers are not those of the manifest")
    except DamageError as damage:
        damages.append(damage)
    for ledger_id, copy in manifest.ledgers.items():
        try:
            for _ in entry_groups(path, ledger_id, copy):
                pass
        except DamageError as damage:
            damages.append(damage)
    return manifest, damages


def read_records(path: Path, manifest: Manifest) -> list[Row]:
    """Returns the rows of the metadata. Raises DamageError and OSError."""
    part = manifest.records
    rows: list[Row] = []
    for offset, body in _blocks(path, part):
        try:
            rows += decode_rows(body)
        except StreamError as error:
            raise DamageError(part.name, offset, str(error)) from None
    try:
        load_tree(part.name, rows)
    except StoreDamagedError as error:
        raise DamageError(part.name, 0, error.reason) from None
    return rows


def entry_groups(path: Path, ledger_id: int, copy: LedgerCopy) -> Iterator[list[tuple[int, bytes]]]:
    """Yields the entries of a ledger with their ids, in groups. The last error may come after the last group, when the
    file as a whole contradicts the manifest. Raises DamageError and OSError."""
    if not copy.part.name:
        return
    part = FilePart(f"{LEDGERS}/{copy.part.name}", copy.part.size, copy.part.checksum)
    count, last = 0, -1
    for offset, body in _blocks(path, part):
        try:
            group = list(decode_entries(body, ledger_id))
        except StreamError as error:
            raise DamageError(part.name, offset, str(error)) from None
        if group and group[0][0] <= last:
            raise DamageError(part.name, offset, f"entry {group[0][0]} stands behind entry {last}")
        last = group[-1][0] if group else last
        count += len(group)
        yield group
    if count != copy.entries or last > copy.last_entry_id:
        finding = (
            f"it holds {counted(count, 'entry', 'entries')} up to {last}, not {copy.entries} up to {copy.last_entry_id}"
        )
        raise DamageError(part.name, 0, finding)


def _blocks(path: Path, part: FilePart) -> Iterator[tuple[int, bytes]]:
    """Yields the blocks of a file with their offsets. Raises DamageError and OSError."""
    checksum = 0
    try:
        file = (path / part.name).open("rb")
    except FileNotFoundError:
        raise DamageError(part.name, 0, "the file is missing") from None
    with file:
        offset = 0
        while offset < part.size:
            head = _read(file, part, offset, BLOCK_HEAD.size)
            length, expected = BLOCK_HEAD.unpack(head)
            try:
                check_length(length)
                body = _read(file, part, offset, length)
                check_body(body, expected)
            except StreamError as error:
                raise DamageError(part.name, offset, str(error)) from None
            yield offset, body
            checksum = crc32c(body, crc32c(head, checksum))
            offset += len(head) + length
    if offset != part.size or checksum != part.checksum:
        raise DamageError(part.name, 0, "it does not fit the checksum in the manifest")


def _read(file: BinaryIO, part: FilePart, offset: int, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise DamageError(part.name, offset, f"the file ends at {file.tell()}, and it had {part.size} bytes")
    return data
