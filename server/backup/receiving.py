"""`magnetar backup`: asks a running server for its stream and puts it into a folder."""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from magnetar.server.backup.backup_errors import BackupError, StreamError
from magnetar.server.backup.backup_folder import BackupFolder, GrowingFile, opened
from magnetar.server.backup.block_rules import block, decode_entries, decode_rows
from magnetar.server.backup.manifest_rules import (
    LedgerCopy,
    Manifest,
    grown,
    held_of,
    ledger_file,
    records_file,
)
from magnetar.server.backup.stream_rules import STREAM_FORMAT, Frame, FrameReader, Held, Kind, encode_held
from magnetar.server.process.running import sentence
from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.http_client import AdminHttp
from pulsar_proto.counted import counted
from pulsar_proto.records.ledger_record import ledger_id_of_path

PATH = "/admin/v2/brokers/backup"
_TOLD_EVERY_SECONDS = 0.2


@dataclass
class Outcome:
    """What one run of the command did."""

    manifest: Manifest
    received_bytes: int
    new_ledgers: int
    """How many ledgers came whole or got further entries."""
    dropped_files: int
    is_new_history: bool
    """Whether the folder held a backup of another history, so that nothing of it could be used."""


def make_backup(
    http: AdminHttp, path: Path, *, is_full: bool, progress: "Progress", bytes_per_second: float = math.inf
) -> Outcome:
    """Makes a backup in the folder, incremental if it can be. The server sends no faster than it is read, so
    `bytes_per_second` also bounds its work. Raises BackupError, after which the folder holds what it held before, and
    OSError when the folder cannot be used."""
    with opened(path) as folder:
        before = folder.manifest
        held = held_of(None if is_full else before, folder.sizes())
        receiver = Receiver(folder, None if is_full else before, held)
        try:
            with http.stream(PATH, encode_held(held)) as parts:
                receiver.take_all(_held_back(parts, bytes_per_second), progress)
            manifest = receiver.manifest()
            is_new_history = before is not None and before.history != manifest.history
            folder.switch(manifest)
        except BaseException as error:
            progress.end()
            folder.discard()
            if isinstance(error, BackupError | AdminCallError | OSError):
                raise BackupError(f"{sentence(error)}; {path} is as it was before") from error
            raise
        progress.end()
        dropped = folder.remove_obsolete()
        return Outcome(manifest, receiver.received_bytes, receiver.new_ledgers, dropped, is_new_history)


def _held_back(parts: Iterable[bytes], bytes_per_second: float) -> Iterator[bytes]:
    began = time.monotonic()
    size = 0
    for part in parts:
        yield part
        size += len(part)
        time.sleep(max(size / bytes_per_second - (time.monotonic() - began), 0))


class Receiver:
    """Takes the frames of one stream in their order and writes them into the folder."""

    def __init__(self, folder: BackupFolder, before: Manifest | None, held: Held) -> None:
        """`before` is the backup that this one may go on from; None stands for a full one."""
        self._folder = folder
        self._copies = {} if before is None else dict(before.ledgers)
        self._history = "" if before is None else before.history
        self._held = held
        self._header: dict[str, Any] | None = None
        self._records: GrowingFile
        self._record_count = 0
        self._named: set[int] = set()
        """The ledgers that the metadata names."""
        self._ledgers: dict[int, LedgerCopy] = {}
        self._growing: _GrowingLedger | None = None
        self._generation = 1 if folder.manifest is None else folder.manifest.generation + 1
        self._is_ended = False
        self.received_bytes = 0
        self.new_ledgers = 0

    def take_all(self, parts: Iterable[bytes], progress: "Progress") -> None:
        """Takes a whole stream. Raises StreamError for a stream that breaks its form or is not whole, BackupError with
        the server's reason, OSError, and the errors of `parts`."""
        frames = FrameReader()
        for part in parts:
            self.received_bytes += len(part)
            for each in frames.feed(part):
                self._take(each)
            progress.tell(len(self._ledgers), len(self._named), self.received_bytes)
        if not self._is_ended or not frames.is_between_frames:
            raise StreamError("the server's stream ended before its end")

    def _take(self, each: Frame) -> None:
        if each.kind is Kind.FAULT:
            raise BackupError(f"the server broke the backup off: {each.body.decode('utf-8', 'replace')}")
        if self._is_ended or (self._header is None) != (each.kind is Kind.HEADER):
            raise StreamError(f"a frame {each.kind.name} came where none may come")
        takers: dict[Kind, Callable[[Frame], None]] = {
            Kind.HEADER: self._take_header,
            Kind.RECORDS: self._take_records,
            Kind.LEDGER: self._take_ledger,
            Kind.ENTRIES: self._take_entries,
            Kind.END: self._take_end,
        }
        takers[each.kind](each)

    def _take_header(self, each: Frame) -> None:
        header = each.fields()
        if header.get("format") != STREAM_FORMAT:
            raise StreamError(f"the server sends format {header.get('format')}; this version knows {STREAM_FORMAT}")
        texts = ("cluster", "version", "instance_id", "history", "time")
        if not all(isinstance(header.get(name), str) for name in texts):
            raise StreamError("the server's header lacks a field")
        self._header = header
        if header["history"] != self._history:
            self._copies = {}
        self._records = self._folder.grow(records_file(self._generation))

    def _take_records(self, each: Frame) -> None:
        rows = decode_rows(each.body)
        self._record_count += len(rows)
        self._named.update(ledger_id for row in rows if (ledger_id := ledger_id_of_path(row[0])) is not None)
        self._records.append(block(each.body))

    def _take_ledger(self, each: Frame) -> None:
        self._finish_ledger()
        fields = each.fields()
        ledger_id, first, last, key = (fields.get(name) for name in ("ledger", "first", "last", "master_key"))
        if not (isinstance(ledger_id, int) and isinstance(first, int) and isinstance(last, int)):
            raise StreamError("the server names a ledger without its numbers")
        if ledger_id not in self._named or ledger_id in self._ledgers or not isinstance(key, str):
            raise StreamError(f"ledger {ledger_id} came twice, or the metadata does not name it")
        copy = self._copies.get(ledger_id) if first > 0 else None
        copy = copy or LedgerCopy()
        if first > 0 and (ledger_id not in self._held.last_entry_ids or first != copy.last_entry_id + 1):
            raise StreamError(
                f"the server goes on with entry {first} of ledger {ledger_id}, {copy.last_entry_id} is ours"
            )
        self._growing = _GrowingLedger(self._folder, ledger_id, copy, first, last, key, self._generation)

    def _take_entries(self, each: Frame) -> None:
        if self._growing is None:
            raise StreamError("entries came without a ledger")
        self._growing.take(each.body)

    def _take_end(self, each: Frame) -> None:
        self._finish_ledger()
        fields = each.fields()
        if fields.get("records") != self._record_count or self._named != self._ledgers.keys():
            raise StreamError(
                f"the stream lacks something: {self._record_count} of {fields.get('records')} records and "
                f"{len(self._ledgers)} of {counted(len(self._named), 'ledger')} came"
            )
        self._records.close()
        self._is_ended = True

    def _finish_ledger(self) -> None:
        if self._growing is not None:
            self._ledgers[self._growing.ledger_id] = self._growing.finish()
            self.new_ledgers += self._growing.has_grown
            self._growing = None

    def manifest(self) -> Manifest:
        """Returns the manifest of the backup that was received."""
        assert self._header is not None
        assert self._is_ended
        header = {name: self._header[name] for name in ("cluster", "version", "instance_id", "history", "time")}
        return Manifest(**header, generation=self._generation, records=self._records.part, ledgers=self._ledgers)


class _GrowingLedger:
    """One ledger while its entries come."""

    def __init__(
        self, folder: BackupFolder, ledger_id: int, copy: LedgerCopy, first: int, last: int, key: str, generation: int
    ) -> None:
        self.ledger_id = ledger_id
        self._folder = folder
        self._copy = copy
        self._first = first
        self._last = last
        self._key = key
        self._generation = generation
        self._file: GrowingFile | None = None
        self._runs: list[range] = []

    @property
    def has_grown(self) -> bool:
        return self._file is not None

    def take(self, body: bytes) -> None:
        """Writes a block of entries. Raises StreamError for entries that nobody asked for, and OSError."""
        for entry_id, _ in decode_entries(body, self.ledger_id):
            expected = self._runs[-1].stop if self._runs else self._first
            if not expected <= entry_id <= self._last:
                raise StreamError(f"entry {entry_id} of ledger {self.ledger_id} came, {expected} or later was due")
            if self._runs and entry_id == expected:
                self._runs[-1] = range(self._runs[-1].start, entry_id + 1)
            else:
                self._runs.append(range(entry_id, entry_id + 1))
        if self._file is None:
            known = self._copy.part if self._copy.part.name else None
            name = ledger_file(self.ledger_id, self._generation) if known is None else known.name
            self._file = self._folder.grow(name, known)
        self._file.append(block(body))

    def finish(self) -> LedgerCopy:
        """Returns what the backup has of the ledger now. Raises OSError."""
        part = self._copy.part if self._file is None else self._file.close()
        last = max(self._last, self._copy.last_entry_id)
        copy = grown(self._copy, self._first, self._runs, last, part)
        return LedgerCopy(copy.part, copy.last_entry_id, copy.entries, copy.missing, self._key)


class Progress:
    """Tells a person at a terminal how far the work is. `stream` is None when nobody watches."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._told_at = 0.0
        self._has_told = False

    @classmethod
    def on_terminal(cls) -> "Progress":
        return cls(sys.stderr if sys.stderr.isatty() else None)

    def tell(self, done: int, total: int, size: int) -> None:
        now = time.monotonic()
        if self._stream is not None and now - self._told_at >= _TOLD_EVERY_SECONDS:
            self._told_at = now
            self._has_told = True
            print(
                f"\r\033[K{done} of {counted(total, 'ledger')}, {size / 1e6:.1f} MB",
                end="",
                file=self._stream,
                flush=True,
            )

    def end(self) -> None:
        """Takes the line away."""
        if self._stream is not None and self._has_told:
            print("\r\033[K", end="", file=self._stream, flush=True)


def told(outcome: Outcome, path: Path) -> str:
    """Returns the line that the command prints in the end."""
    manifest = outcome.manifest
    return (
        f"backup {manifest.generation} of cluster {manifest.cluster} as of {manifest.time} is in {path}: "
        f"{counted(len(manifest.ledgers), 'ledger')}, {outcome.new_ledgers} of them new or grown, "
        f"{counted(outcome.received_bytes, 'byte')} received, {counted(outcome.dropped_files, 'old file')} removed"
    )


def warnings(outcome: Outcome) -> list[str]:
    """Returns what the operator should know besides."""
    lines = []
    if outcome.is_new_history:
        lines.append("the backup before was of another history of this server, so everything was read anew")
    for ledger_id, copy in sorted(outcome.manifest.ledgers.items()):
        if copy.missing:
            runs = ", ".join(f"{first} to {last}" for first, last in copy.missing[:10])
            lines.append(f"the server could not read entries {runs} of ledger {ledger_id}; the backup lacks them")
    return lines
