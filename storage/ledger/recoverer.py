"""The shell of recovery, which does the I/O: fences a ledger, copies the entries that may have been acknowledged, and
closes the ledger.

The modules `recovery_rules` and `fragment_rules` make the decisions. Any number of clients may recover one ledger at
once, and each of them may stop at any point: until the close, which is one compare-and-set, the metadata only gets the
mark IN_RECOVERY. See docs/LEDGERS.md, "Fencing and recovery".

Two choices differ from Apache's client and look the same from outside:

- Entries are copied as they were read, byte for byte. Apache's client packs them again with its own LAC. This LAC may
  count entries as confirmed that so far stand only in ensembles which that client has not written into the metadata yet
  (NoDirtyReads of the TLA+ model).
- The length of a ledger in which nothing had to be copied is read from its last entry. Apache's client takes it from
  the header that named the LAC. That header may belong to a later entry, and there is no such header when only the
  lower bound for the LAC applies.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.bookie_preference import NO_PREFERENCE, BookiePreference
from magnetar.storage.ledger.channel_lookup import ChannelOf
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ensemble_writer import EnsembleWriter
from magnetar.storage.ledger.fragment_rules import Members, last_fragment, mark_in_recovery, recovered
from magnetar.storage.ledger.last_confirmed import ask_last_entries
from magnetar.storage.ledger.ledger_errors import DigestMismatch, LedgerClosed, LedgerError
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver, VersionedMetadata
from magnetar.storage.ledger.placement_rules import ReplaceFailed
from magnetar.storage.ledger.recovery_rules import LastConfirmed, RecoveryRead, RecoveryVerdict, recovery_error
from magnetar.storage.ledger.replica_reader import ReplicaReader
from pulsar_proto.records.entry_digest import entry_length
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState
from pulsar_proto.wire.bookie_wire import AddFlags, ReadFlags

logger = logging.getLogger(__name__)

_FENCE = int(ReadFlags.FENCING)
_RECOVERY_READ = int(ReadFlags.FENCING | ReadFlags.HIGH_PRIORITY)
_RECOVERY_ADD = int(AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY)


class Recoverer:
    """Recovers one ledger, once."""

    def __init__(
        self,
        ledger_id: int,
        master_key: bytes,
        *,
        driver: LedgerMetadataDriver,
        reader: ReplicaReader,
        channel_of: ChannelOf,
        replace_failed: ReplaceFailed,
        config: LedgerConfig,
        preference: BookiePreference = NO_PREFERENCE,
    ) -> None:
        self._preference = preference
        self._ledger_id = ledger_id
        self._master_key = master_key
        self._driver = driver
        self._reader = reader
        self._channel_of = channel_of
        self._replace_failed = replace_failed
        self._config = config

    async def run(self, ledger: VersionedMetadata) -> VersionedMetadata:
        """Closes the ledger unless it is closed already, and returns the metadata of the closed ledger.

        Raises LedgerRecoveryFailed, UnauthorizedAccess, BookieTimeout (the ledger was not closed, and the call may be
        repeated), LedgerMetadataFault, MetadataDamaged, NoSuchLedger, and MetadataVersion when another client changed
        the ledger's last ensemble meanwhile.
        """
        ledger = await self._driver.update(ledger, mark_in_recovery)
        begun = ledger.metadata
        if begun.state is LedgerState.CLOSED:
            return ledger
        try:
            confirmed = await ask_last_entries(self._reader, begun, _FENCE)
        except DigestMismatch as error:
            if not self._config.skip_given_up_entries:
                raise recovery_error(self._ledger_id, "fencing", error) from error
            logger.warning("ledger %d: fenced, its last entry is damaged: every entry is looked at", self._ledger_id)
            confirmed = LastConfirmed(last_fragment(begun).first - 1, 0)
        except LedgerError as error:
            raise recovery_error(self._ledger_id, "fencing", error) from error
        logger.info("ledger %d: fenced, last confirmed entry known is %d", self._ledger_id, confirmed.entry_id)
        copy = _CopyForward(self, begun, confirmed.entry_id)
        try:
            last, length = await copy.run()
        except LedgerError as error:
            raise recovery_error(self._ledger_id, "copying forward", error) from error
        if last == confirmed.entry_id:
            length = await self._length_at(begun, confirmed)
        closed = await self._driver.update(
            ledger, lambda metadata: recovered(metadata, begun, copy.ensembles.changes, last, length)
        )
        logger.info(
            "ledger %d: recovered and closed at entry %d, %d of them copied, length %d",
            self._ledger_id,
            closed.metadata.last_entry_id,
            last - confirmed.entry_id,
            closed.metadata.length,
        )
        return closed

    async def _length_at(self, metadata: LedgerMetadata, confirmed: LastConfirmed) -> int:
        """Returns the ledger's length at its last entry, for a recovery that copied nothing."""
        if confirmed.entry_id < 0:
            return 0
        try:
            entries = await self._reader.read(metadata, confirmed.entry_id, confirmed.entry_id, max_bytes=1)
        except LedgerError as error:
            logger.warning(
                "ledger %d: closing with the length %d, which may be wrong: entry %d cannot be read: %s",
                self._ledger_id,
                confirmed.length,
                confirmed.entry_id,
                error,
            )
            return confirmed.length
        return entry_length(entries[0])


class _RecoveryEnsembles:
    """The `EnsembleKeeper` of recovery: keeps ensemble changes in memory until the close writes them."""

    def __init__(self, members: Members, first: int, replace_failed: ReplaceFailed) -> None:
        self.members = members
        self._replace_failed = replace_failed
        self.changes: list[tuple[int, Members]] = []

    async def replace(self, failed: Mapping[int, str], first_entry_id: int) -> Sequence[str]:
        self.members = self._replace_failed(self.members, failed)
        if self.changes and self.changes[-1][0] == first_entry_id:
            self.changes.pop()
        self.changes.append((first_entry_id, self.members))
        return self.members


class _CopyForward:
    """Reads the entries after the LAC, several at a time, and writes each of these entries to the bookies once more, in
    order, until the end is proved."""

    def __init__(self, recovery: Recoverer, begun: LedgerMetadata, lac: int) -> None:
        self._recovery = recovery
        self._reader = recovery._reader
        self._config = recovery._config
        self._begun = begun
        self._fragment = last_fragment(begun)
        self._lac = lac
        self._changed = asyncio.Event()
        self._failure: LedgerError | None = None
        self.ensembles = _RecoveryEnsembles(self._fragment.members, self._fragment.first, recovery._replace_failed)
        self._writer = self._writer_behind(lac)

    def _writer_behind(self, entry_id: int) -> EnsembleWriter:
        recovery, begun = self._recovery, self._begun
        return EnsembleWriter(
            recovery._ledger_id,
            recovery._master_key,
            self.ensembles.members,
            (begun.write_quorum, begun.ack_quorum),
            channel_of=recovery._channel_of,
            keeper=self.ensembles,
            config=recovery._config,
            flags=_RECOVERY_ADD,
            last_add_confirmed=entry_id,
            preference=recovery._preference,
        )

    async def run(self) -> tuple[int, int]:
        """Copies the entries and returns (last entry id, ledger's length up to that entry). The length is 0 when no
        entry was copied. Raises LedgerError."""
        reads: deque[asyncio.Task[bytes | RecoveryVerdict | None]] = deque()
        next_id, last_damaged = self._lac + 1, -1
        try:
            while True:
                while len(reads) < self._config.recovery_reads_max:
                    reads.append(asyncio.create_task(self._read(next_id)))
                    next_id += 1
                entry_id = next_id - len(reads)
                entry = await reads.popleft()
                if entry is None:
                    break
                if isinstance(entry, RecoveryVerdict):
                    if entry is RecoveryVerdict.DAMAGED:
                        last_damaged = entry_id
                    continue
                if entry_id != self._writer.machine.last_add_pushed + 1:
                    await self._pass_over(entry_id)
                await self._pending_at_most(self._config.recovery_adds_max - 1)
                self._writer.submit(Append(entry_id, [entry], entry_length(entry), self._added))
            await self._pending_at_most(0)
            machine = self._writer.machine
            return max(machine.last_add_confirmed, last_damaged), machine.length_confirmed
        finally:
            self._writer.end(LedgerClosed(f"ledger {self._begun.ledger_id}: recovery is over"))
            await _cancel(reads)

    async def _pass_over(self, entry_id: int) -> None:
        """Goes on after a gap: no bookie can return the entries between the last copied one and `entry_id`."""
        await self._pending_at_most(0)
        first, ledger_id = self._writer.machine.last_add_pushed + 1, self._begun.ledger_id
        logger.warning(
            "ledger %d: nobody can read the entries %d to %d; it goes on behind them",
            ledger_id,
            first,
            entry_id - 1,
        )
        self._writer.end(LedgerClosed(f"ledger {ledger_id}: another writer goes on behind a gap"))
        self._writer = self._writer_behind(entry_id - 1)

    async def _read(self, entry_id: int) -> bytes | RecoveryVerdict | None:
        """Returns the entry, None if the ledger ends before it, or GIVEN_UP or DAMAGED if the entry is to be passed
        over. Raises LedgerError when this cannot be decided."""
        begun = self._begun
        members = self._fragment.members
        question = RecoveryRead(entry_id, members, begun.write_quorum, begun.ack_quorum, demoted=self._reader.demoted)
        while question.verdict is RecoveryVerdict.OPEN:
            bookie = members[question.next_replica()]
            try:
                question.found(await self._reader.entry_of(bookie, entry_id, _RECOVERY_READ))
            except LedgerError as error:
                question.failed(error)
        if question.verdict is RecoveryVerdict.DECIDED:
            return question.entry
        if question.verdict is not RecoveryVerdict.FAILED and self._config.skip_given_up_entries:
            return question.verdict
        raise question.error()

    async def _pending_at_most(self, entries: int) -> None:
        while self._failure is None and self._writer.machine.pending_entries > entries:
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    def _added(self, append: Append) -> None:
        self._failure = append.error or self._failure
        self._changed.set()


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels the remaining tasks, whose results are no longer needed, and waits for their end."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
