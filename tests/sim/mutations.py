"""Bugs that are planted on purpose. With each of them some history must break an invariant, otherwise the simulation
would not notice such a bug."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from magnetar.storage.bookie import journal
from magnetar.storage.bookie.add_path import AddPath
from magnetar.storage.bookie.bookie_opening import ReplayApplier
from magnetar.storage.bookie.entry_log_writer import EntryLogWriter
from magnetar.storage.bookie.journal_format import (
    BATCH_HEADER_SIZE,
    FENCE,
    BatchHeader,
    BatchKind,
    ControlRecord,
    JournalPosition,
    Salt,
    split_batch,
)
from magnetar.storage.bookie.journal_replay import JournalReplay, list_journals, read_batch
from magnetar.storage.bookie.old_journals import OldJournals
from magnetar.storage.ledger import recoverer
from magnetar.storage.ledger import recovery_rules as recover
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.fragment_rules import Members
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchEntry
from magnetar.storage.ledger.ledger_handle import StoredEnsembles
from magnetar.storage.ledger.recovery_rules import LastConfirmed, LastEntryRound, RecoveryRead
from pulsar_proto.records.ledger_record import LedgerMetadata
from pulsar_proto.wire.bookie_wire import AddFlags, ReadFlags
from tests.sim.sim_disk import SimFile

_HIGH = int(ReadFlags.HIGH_PRIORITY)

Mutation = Callable[[], AbstractContextManager[Any]]


def _recovery_reads_do_not_fence() -> AbstractContextManager[Any]:
    """Plants the first counterexample of docs/LEDGERS.md, "Two counterexamples"."""
    return patch.object(recoverer, "_RECOVERY_READ", _HIGH)


def _recovery_does_not_fence_at_all() -> AbstractContextManager[Any]:
    return patch.multiple(recoverer, _FENCE=0, _RECOVERY_READ=_HIGH)


def _lac_has_no_floor() -> AbstractContextManager[Any]:
    """Plants the second counterexample of docs/LEDGERS.md, "Two counterexamples"."""

    def result(self: LastEntryRound, first_of_last_ensemble: int) -> LastConfirmed:
        return self._found

    return patch.object(LastEntryRound, "result", result)


def _acks_of_a_replaced_bookie_count() -> AbstractContextManager[Any]:
    return patch.object(Append, "forget", lambda self, index, ack_quorum: None)


def _one_ack_less_is_enough() -> AbstractContextManager[Any]:
    real = Append.acknowledge

    def acknowledge(self: Append, index: int, ids: Sequence[int], ack_quorum: int) -> None:
        real(self, index, ids, max(1, ack_quorum - 1))

    return patch.object(Append, "acknowledge", acknowledge)


def _an_add_is_acknowledged_before_fsync() -> AbstractContextManager[Any]:
    real = SimFile.sync

    def sync(self: SimFile) -> None:
        if "/journal/" not in self.path:
            real(self)

    return patch.object(SimFile, "sync", sync)


def _a_fence_is_answered_before_it_is_durable() -> AbstractContextManager[Any]:
    async def fence(self: AddPath, ledger_id: int, master_key: bytes) -> None:
        self._state_for_record(ledger_id, master_key).fenced = True

    return patch.object(AddPath, "fence", fence)


def _a_restart_forgets_fences() -> AbstractContextManager[Any]:
    real = ReplayApplier._apply_control

    def apply(self: ReplayApplier, control: ControlRecord) -> None:
        if control.kind != FENCE:
            real(self, control)

    return patch.object(ReplayApplier, "_apply_control", apply)


def _an_entry_log_is_not_synced_before_the_mark_moves() -> AbstractContextManager[Any]:
    def finish(self: EntryLogWriter) -> None:
        self._write()
        self._finished = self._synced = self._written

    return patch.object(EntryLogWriter, "finish", finish)


def _a_journal_is_written_over_before_the_mark_has_left_it() -> AbstractContextManager[Any]:
    real = OldJournals.drop

    def drop(self: OldJournals, mark: JournalPosition) -> None:
        real(self, mark._replace(journal_id=list_journals(self.directory)[-1] + 1))

    return patch.object(OldJournals, "drop", drop)


def _a_journal_that_is_written_over_gets_its_name_before_its_header() -> AbstractContextManager[Any]:
    real = SimFile.sync

    def sync(self: SimFile) -> None:
        if self.path.endswith(".spare"):
            self._disk.step()
        else:
            real(self)

    return patch.object(SimFile, "sync", sync)


def _what_a_journal_held_before_is_believed() -> AbstractContextManager[Any]:
    """Replay takes what the file held in its former use for its own batches: the checks of salt, journal id, sequence
    number and trailing zeros are off."""

    def replay(self: JournalReplay, data: Any, salt: Salt) -> BatchHeader | None:
        journal_id, offset, sequence = self.end
        while (found := read_batch(data, offset, salt)) is not None:
            header, body = found
            offset += BATCH_HEADER_SIZE + header.length
            sequence += 1
            self.end = JournalPosition(journal_id, offset, sequence)
            if header.kind == BatchKind.CONTINUED:
                return header
            self._apply(*split_batch(header, body), False)
        return None

    stack = ExitStack()
    stack.enter_context(patch.object(JournalReplay, "_replay_batches", replay))
    stack.enter_context(patch.object(secrets, "randbits", lambda bits: 1))
    stack.enter_context(patch.object(journal, "padding", lambda end: 0))
    return stack


def _an_ensemble_change_begins_one_entry_too_late() -> AbstractContextManager[Any]:
    real = StoredEnsembles.replace

    async def replace(self: StoredEnsembles, failed: dict[int, str], first_entry_id: int) -> Sequence[str]:
        return await real(self, failed, first_entry_id + 1)

    return patch.object(StoredEnsembles, "replace", replace)


def _one_missing_copy_proves_the_end() -> AbstractContextManager[Any]:
    return patch.object(recover, "missing_proves_end", lambda missing, write_quorum, ack_quorum: True)


def _an_unknown_answer_counts_as_no_entry() -> AbstractContextManager[Any]:
    real = RecoveryRead.failed

    def failed(self: RecoveryRead, error: LedgerError) -> None:
        real(self, NoSuchEntry())

    return patch.object(RecoveryRead, "failed", failed)


def _recovery_adds_are_not_told_apart() -> AbstractContextManager[Any]:
    return patch.object(recoverer, "_RECOVERY_ADD", int(AddFlags.HIGH_PRIORITY))


def _a_recovery_closes_what_is_closed() -> AbstractContextManager[Any]:
    def recovered(
        metadata: LedgerMetadata,
        begun: LedgerMetadata,
        changes: Sequence[tuple[int, Members]],
        last_entry_id: int,
        length: int,
    ) -> LedgerMetadata | None:
        return metadata.closed(last_entry_id, length)

    return patch.object(recoverer, "recovered", recovered)


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__.strip("_"): mutation
    for mutation in (
        _recovery_reads_do_not_fence,
        _recovery_does_not_fence_at_all,
        _lac_has_no_floor,
        _acks_of_a_replaced_bookie_count,
        _one_ack_less_is_enough,
        _an_add_is_acknowledged_before_fsync,
        _a_fence_is_answered_before_it_is_durable,
        _a_restart_forgets_fences,
        _an_entry_log_is_not_synced_before_the_mark_moves,
        _a_journal_is_written_over_before_the_mark_has_left_it,
        _a_journal_that_is_written_over_gets_its_name_before_its_header,
        _what_a_journal_held_before_is_believed,
        _an_ensemble_change_begins_one_entry_too_late,
        _one_missing_copy_proves_the_end,
        _an_unknown_answer_counts_as_no_entry,
        _recovery_adds_are_not_told_apart,
        _a_recovery_closes_what_is_closed,
    )
}
