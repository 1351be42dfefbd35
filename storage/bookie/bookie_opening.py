"""Opens a bookie's folders and restores the state after the last acknowledged add. All calls block.

Opening has two steps, because a refused start must leave every file as it was: `RecoveredStorage` only reads and checks
all files, and `OpenedStorage` makes the first changes afterwards.
"""

import logging
import os
import struct
import time

from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import DirectoryMismatch, IndexDamaged, JournalMissing, MarkDamaged
from magnetar.storage.bookie.cookie import BookieDirectories
from magnetar.storage.bookie.durable_file import OpenFile
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.entry_log_reader import EntryLogReader
from magnetar.storage.bookie.entry_log_writer import EntryLogWriter
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.index_manifest import check_manifest, check_records
from magnetar.storage.bookie.journal_format import EXPLICIT_LAC, FENCE, LEDGER_KEY, ControlRecord, JournalPosition
from magnetar.storage.bookie.journal_replay import FIRST_POSITION, JournalReplay, give_up, journal_path, list_journals
from magnetar.storage.bookie.last_mark import LastMark, LastMarkFile
from magnetar.storage.bookie.ledger_state import LedgerStates
from magnetar.storage.bookie.reserve import Reserve
from magnetar.storage.bookie.write_cache import WriteCache

log = logging.getLogger(__name__)

_IDS = struct.Struct(">qq")


class RecoveredStorage:
    """The content of a bookie's folders, read and checked. Nothing on disk was changed."""

    def __init__(self, config: BookieConfig, directories: BookieDirectories) -> None:
        """Reads all files of the folders, which the caller has claimed. Raises BookieStartError, OSError."""
        self.directories = directories
        self.cache = WriteCache(config.write_cache_half_bytes)
        self.states = LedgerStates()
        self.marks = LastMarkFile(directories.mark)
        self.logs = EntryLogs(directories.ledgers, config.open_entry_logs)
        self.journal_ends: list[JournalPosition] = []
        self.mark_is_due = False
        """Whether a checkpoint has to write the mark before the first add is taken. The mark is due when a part of the
        journals was given up, because the next start would find the damage again. The mark is also due when no mark
        exists yet: if the mark and the journals were both lost later, the folder would look like that of a new
        bookie."""
        self._replays: list[JournalReplay] = []
        self._recover(config.skip_damaged_journal)

    @property
    def is_new(self) -> bool:
        """Whether the bookie is new: no folder has a cookie, so nothing was ever stored in the folders."""
        return self.directories.is_new

    def release(self) -> None:
        """Releases the folders. The caller calls this method when it gives the start up."""
        self.logs.close()
        self.directories.release()

    def cut_torn_ends(self) -> None:
        """Removes the torn tail and the unused files behind each journal's end, because the next batch is written there
        (`JournalReplay.finish`). Raises OSError."""
        for replay in self._replays:
            replay.finish()
        self._replays.clear()

    def _recover(self, skip_damaged_journal: bool) -> None:
        """Reads the ledgers' states from the index, then the journals from the mark on. Raises BookieStartError."""
        started = time.perf_counter()
        mark = self._load_mark(skip_damaged_journal)
        self.mark_is_due = mark is None
        self.logs.begin_at(mark.next_log_id if mark is not None else 0)
        check_records(self.directories.index)
        index_sequence = self._read_index()
        if mark is not None and index_sequence < mark.index_sequence:
            raise IndexDamaged(
                f"the index {self.directories.index} lacks records: it is at {index_sequence}, "
                f"the last checkpoint left it at {mark.index_sequence}; restore the folder from a copy"
            )
        if mark is not None and mark.manifest is not None:
            check_manifest(self.directories.index, mark.manifest)
        directories = self.directories.journals
        missing = [directory for directory in directories if not list_journals(directory)]
        if mark is None and missing == list(directories) and (len(self.states) or self.logs.ids()):
            finding = f"{self.directories.mark} and all journals are missing, but there are entry logs"
            give_up(MarkDamaged(finding), skip_damaged_journal)
        if mark is not None and len(mark.positions) != len(directories):
            raise DirectoryMismatch(
                f"{self.directories.mark} is one of {len(mark.positions)} journals, configured are {len(directories)}"
            )
        positions = mark.positions if mark is not None else (None,) * len(directories)
        applier = ReplayApplier(self.cache, self.states)
        batches = 0
        for directory, position in zip(directories, positions, strict=True):
            replay = JournalReplay(directory, position, applier.apply, skip_damaged_journal)
            replay.run()
            self._replays.append(replay)
            self.journal_ends.append(replay.end)
            self.mark_is_due |= replay.skipped
            batches += replay.batches
        if mark is None and missing and batches:
            # A bookie makes all its journals before it takes the first add, so a missing journal was lost.
            path = journal_path(missing[0], FIRST_POSITION.journal_id)
            give_up(JournalMissing(path, "the other journals hold batches"), skip_damaged_journal)
        if batches:
            log.info(
                "journal: replayed %d entries in %d batches in %.3f s, %d of deleted ledgers skipped",
                applier.entries,
                batches,
                time.perf_counter() - started,
                applier.skipped,
            )

    def _load_mark(self, skip_damaged: bool) -> LastMark | None:
        """Returns the mark, or None when there is none. A damaged mark that may be skipped also counts as no mark; in
        that case the journals are replayed from their beginning."""
        try:
            return self.marks.load()
        except MarkDamaged as error:
            give_up(error, skip_damaged)
            return None

    def _read_index(self) -> int:
        """Loads the ledgers' states from the index and returns its sequence number, or 0 when there is no index yet:
        RocksDB makes the file CURRENT last of all. Raises IndexDamaged."""
        if not os.path.exists(os.path.join(self.directories.index, "CURRENT")):
            return 0
        index = EntryIndex(self.directories.index, read_only=True)
        try:
            for state in index.ledger_states():
                self.states.load(state)
            return index.sequence
        finally:
            index.close()


class OpenedStorage:
    """The parts of an open bookie that keep files in its folders."""

    def __init__(self, config: BookieConfig, recovered: RecoveredStorage, open_file: OpenFile) -> None:
        """Makes the first changes of a start on disk. Raises IndexDamaged, DirectoryInUse, OSError; the folders stay
        claimed after an error."""
        self.directories = recovered.directories
        self.directories.make_own()
        recovered.cut_torn_ends()
        self.cache = recovered.cache
        self.states = recovered.states
        self.marks = recovered.marks
        self.logs = recovered.logs
        self.journal_ends = recovered.journal_ends
        self.mark_is_due = recovered.mark_is_due
        self.index = EntryIndex(self.directories.index)
        self.reader = EntryLogReader(self.index, self.logs)
        self.writer = EntryLogWriter(
            self.logs, log_size_limit=config.log_size_limit, block_bytes=config.entry_block_bytes, open_file=open_file
        )

    def close(self) -> None:
        """Closes the files and releases the folders; call this method after the last checkpoint. If the
        current log's footer cannot be written, that is only logged."""
        try:
            self.writer.close_log()
        except OSError as error:
            log.warning("entry log: no footer written: %s", error)
        self.abandon()

    def abandon(self) -> None:
        """Closes the files and releases the folders, without a write."""
        self.index.close()
        self.logs.close()
        self.directories.release()


class ReplayApplier:
    """Restores the memory of the process from replayed batches: it puts entries into the write cache, and changes into
    the ledgers' states."""

    def __init__(self, cache: WriteCache, states: LedgerStates) -> None:
        self._cache = cache
        self._states = states
        self.entries = 0
        self.skipped = 0

    def apply(self, controls: list[ControlRecord], entries: list[bytes], after_damage: bool) -> None:
        """Applies one batch. `after_damage` says that a part of the journal before this batch was given up."""
        for control in controls:
            self._apply_control(control)
        groups: dict[int, tuple[list[int], list[bytes]]] = {}
        current: int | None = None
        unpack = _IDS.unpack_from
        for entry in entries:
            ledger_id, entry_id = unpack(entry)
            if ledger_id != current:
                current = ledger_id
                ids, group = groups.setdefault(ledger_id, ([], []))
            ids.append(entry_id)
            group.append(entry)
        for ledger_id, (ids, group) in groups.items():
            if after_damage:
                self._states.put_into_limbo(ledger_id)
            if ledger_id in self._states:
                self._cache.active.put(ledger_id, ids, group, sum(map(len, group)))
                self.entries += len(group)
            else:
                # A ledger's key is durable before its first entry. The key record of this ledger stands before the
                # mark, and the index does not know the ledger any more, so the ledger was deleted.
                self.skipped += len(group)

    def _apply_control(self, control: ControlRecord) -> None:
        state = self._states.get(control.ledger_id)
        if control.kind == LEDGER_KEY:
            if state is None:
                state = self._states.create(control.ledger_id, control.data)
            elif state.master_key is None:
                self._states.learn_key(state, control.data)
            state.key_durable = True
        elif control.kind == FENCE and state is not None:
            state.fenced = state.fence_durable = True
            self._states.changed.add(control.ledger_id)
        elif control.kind == EXPLICIT_LAC and state is not None and state.raise_explicit_lac(control.data):
            self._states.changed.add(control.ledger_id)


def read_storage(config: BookieConfig, bookie_id: str, instance_id: str) -> RecoveredStorage:
    """Claims the folders, reads what is in them and replays the journals. Raises BookieStartError, OSError; after an
    error the folders are free again. The files on disk stay unchanged in any case, but on a full disk the reserve is
    emptied, because the metadata of a standalone server needs room before the bookie does."""
    directories = BookieDirectories(config, bookie_id, instance_id)
    directories.claim()
    try:
        Reserve(directories.all).release()
        return RecoveredStorage(config, directories)
    except BaseException:
        directories.release()
        raise
