"""`WithheldAcks`: what a dispatcher may send of a subscription whose messages are partly held by transactions."""

from collections.abc import Sequence
from typing import Protocol

from magnetar.server.topics.subscriptions.pending_acks.batch_parts import WHOLE, BatchPart
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import PendingAckRules
from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask


class Acks(Protocol):
    """The acknowledgements that hold without transactions: those of the cursor, or of a compacted view of the log."""

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]: ...

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None: ...


class WithheldAcks:
    """The acknowledgements as a dispatcher sees them: messages that transactions hold individually count as
    acknowledged. Messages that a cumulative acknowledgement covers do not, as in Apache's broker. Source:
    AbstractBaseDispatcher.filterEntriesForConsumer."""

    __slots__ = ("_acks", "_rules")

    def __init__(self, acks: Acks, rules: PendingAckRules) -> None:
        self._acks = acks
        self._rules = rules

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]:
        runs = self._acks.unacked_runs(ledger_id, first, count)
        held = self._rules.entries_held(ledger_id, first, count)
        hidden = [entry_id for entry_id, part in held if not self._left(ledger_id, entry_id, part)]
        return _without(runs, hidden) if hidden else runs

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None:
        part = self._rules.held_of(ledger_id, entry_id)
        if part is None:
            return self._acks.ack_set_of(ledger_id, entry_id)
        return words_of_mask(self._left(ledger_id, entry_id, part)) or [0]

    def _left(self, ledger_id: int, entry_id: int, held: BatchPart) -> int:
        """Returns the messages of an entry that may be sent, as bits."""
        if held is WHOLE:
            return 0
        words = self._acks.ack_set_of(ledger_id, entry_id)
        return held.rest if words is None else held.rest & mask_of_words(words)


def _without(runs: list[tuple[int, int]], entries: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the runs (first entry, count) without some entries, which ascend."""
    left: list[tuple[int, int]] = []
    at = 0
    for first, count in runs:
        end = first + count
        while at < len(entries) and entries[at] < end:
            if entries[at] > first:
                left.append((first, entries[at] - first))
            first = max(first, entries[at] + 1)
            at += 1
        if first < end:
            left.append((first, end - first))
    return left
