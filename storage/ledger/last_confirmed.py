"""Finds the LAC of a ledger that is being written: its bookies are asked for their last entry, or for the LAC they
know.

Source: ReadLastConfirmedOp, PendingReadLacOp (docs/LEDGERS.md, "The last add confirmed").
"""

import asyncio
from collections.abc import Awaitable, Callable

from magnetar.storage.ledger.fragment_rules import last_fragment
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.recovery_rules import LastConfirmed, LastEntryRound, RecoveryVerdict
from magnetar.storage.ledger.replica_reader import ReplicaReader
from pulsar_proto.records.ledger_record import LedgerMetadata


async def ask_last_entries(reader: ReplicaReader, metadata: LedgerMetadata, flags: int) -> LastConfirmed:
    """Returns the highest LAC in the headers of the bookies' last entries. Raises LedgerError, see `ask_ensemble`."""

    async def ask(bookie: str) -> LastConfirmed:
        last = await reader.last_entry_of(bookie, flags)
        return LastConfirmed(last.lac, last.length)

    return await ask_ensemble(metadata, ask)


async def ask_last_confirmed(reader: ReplicaReader, metadata: LedgerMetadata) -> LastConfirmed:
    """Returns the highest LAC in the headers of the bookies' last entries and among the LACs that the writer sent
    without an entry (explicit LAC). Never fences. Raises LedgerError, see `ask_ensemble`."""
    return await ask_ensemble(metadata, reader.last_confirmed_of)


async def ask_ensemble(metadata: LedgerMetadata, ask: Callable[[str], Awaitable[LastConfirmed]]) -> LastConfirmed:
    """Asks all bookies of the last ensemble until their answers cover the ensemble (`quorum_rules.Coverage`), and
    returns the highest LAC.

    Raises the LedgerError that kept the round from being covered.
    """
    fragment = last_fragment(metadata)
    outcome = LastEntryRound(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)

    async def question(index: int, bookie: str) -> None:
        try:
            confirmed = await ask(bookie)
        except LedgerError as error:
            outcome.failed(index, error)
        else:
            outcome.answered(index, confirmed.entry_id, confirmed.length)

    questions = [asyncio.create_task(question(index, bookie)) for index, bookie in enumerate(fragment.members)]
    try:
        left = set(questions)
        while outcome.verdict is RecoveryVerdict.OPEN:
            answered, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for one in answered:
                one.result()
    finally:
        for one in questions:
            one.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
    if outcome.verdict is RecoveryVerdict.FAILED:
        raise outcome.error()
    return outcome.result(fragment.first)
