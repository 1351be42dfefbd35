"""Decides how far a topic may be read, and which of its messages belong to transactions that were aborted.

The messages of transactions are ordinary entries of the topic's log. Nobody may read beyond the first entry of the
oldest open transaction, so an open transaction holds back all that stands behind it, also messages of no transaction. A
marker in the log ends a transaction; what stands before the marker then becomes readable, or is left out if the
transaction was aborted.

The caller tells `OpenTransactions` of each stored entry of a transaction and of each stored marker, in the order of the
log and at once when the log has confirmed them. So the log never has a confirmed entry of which this object does not
know.

Source: TopicTransactionBuffer (handleTransactionMessage, updateMaxReadPosition, handleLowWaterMark),
SingleSnapshotAbortedTxnProcessorImpl.trimExpiredAbortedTxns.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.transaction_snapshot import AbortedTxn


class LogPositions(Protocol):
    """The properties of the topic's log that this module uses."""

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def first_position(self) -> Position: ...

    def previous_position(self, position: Position) -> Position: ...


class OpenTransaction(NamedTuple):
    """A transaction that has messages in the topic and has not ended here."""

    first: Position
    """Its first message."""
    since_ms: int
    """When its first message was stored, or was found by recovery, in ms since the epoch."""


class OpenTransactions:
    """The transactions of one topic."""

    __slots__ = ("_aborted", "_log", "_low_watermarks", "_open", "aborted_count", "bound", "committed_count")

    def __init__(self, log: LogPositions) -> None:
        self._log = log
        self._open: OrderedDict[TxnId, OpenTransaction] = OrderedDict()
        """In the order of their first messages."""
        self._aborted: OrderedDict[TxnId, Position] = OrderedDict()
        """Aborted transaction -> its marker, in the order of the markers."""
        self._low_watermarks: dict[int, int] = {}
        self.bound: Position | None = None
        """The last entry that may be read while a transaction is open; None when the whole log may be read."""
        self.committed_count = 0
        self.aborted_count = 0
        """How many transactions were committed and aborted here since the topic was loaded."""

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def open(self) -> Mapping[TxnId, OpenTransaction]:
        return self._open

    @property
    def aborted(self) -> Mapping[TxnId, Position]:
        """The aborted transactions that may still have messages in the log, with their markers."""
        return self._aborted

    @property
    def low_watermarks(self) -> Mapping[int, int]:
        """Coordinator -> the count up to which all of its transactions have ended, as far as ENDs have told."""
        return self._low_watermarks

    @property
    def max_read_position(self) -> Position:
        """The last entry that may be read."""
        return self._log.last_confirmed if self.bound is None else self.bound

    def is_aborted(self, txn_id: TxnId) -> bool:
        return txn_id in self._aborted

    def is_over(self, txn_id: TxnId) -> bool:
        """Whether the coordinator has told that the transaction has ended. The low watermark is signed, because it is
        one less than the smallest open count, which may be 0."""
        return txn_id.least <= self._low_watermarks.get(txn_id.most, -1)

    def oldest(self) -> TxnId | None:
        """Returns the transaction that holds the topic back, if there is one."""
        return next(iter(self._open), None)

    def orphan(self) -> TxnId | None:
        """Returns the transaction that holds the topic back if it is over according to its coordinator, so that no END
        will come for it."""
        oldest = self.oldest()
        return oldest if oldest is not None and self.is_over(oldest) else None

    # --- what happens in the log -------------------------------------------------------------------------------------

    def stored(self, txn_id: TxnId, position: Position, now_ms: int) -> None:
        """Notes a stored message. A message of an aborted transaction came too late: it is left out like the others of
        its transaction."""
        if txn_id in self._open or txn_id in self._aborted:
            return
        self._open[txn_id] = OpenTransaction(position, now_ms)
        if self.bound is None:
            self._find_bound()

    def committed(self, txn_id: TxnId) -> None:
        self.committed_count += 1
        self._ended(txn_id)

    def aborted_at(self, txn_id: TxnId, marker: Position) -> None:
        """Notes that a transaction was aborted by the marker at that position."""
        self.aborted_count += 1
        self._aborted[txn_id] = marker
        self._aborted.move_to_end(txn_id)
        self._ended(txn_id)
        self._forget_trimmed()

    def restore(self, aborted: Iterable[AbortedTxn]) -> None:
        """Takes the aborted transactions of a snapshot over, in their order, before the log is read."""
        for txn_id, marker in aborted:
            self._aborted[txn_id] = marker

    def recovered(self) -> None:
        """Called after the log was read: from now on the counts are those of this broker."""
        self.committed_count = self.aborted_count = 0

    def watermark(self, coordinator: int, count: int) -> None:
        """Notes a coordinator's low watermark: all of its transactions up to `count` have ended. A smaller one than
        before comes from an END that was overtaken, and changes nothing."""
        self._low_watermarks[coordinator] = max(count, self._low_watermarks.get(coordinator, count))

    def _ended(self, txn_id: TxnId) -> None:
        was = self._open.pop(txn_id, None)
        if was is not None and self.bound is not None:
            self._find_bound()

    def _find_bound(self) -> None:
        oldest = self.oldest()
        self.bound = None if oldest is None else self._log.previous_position(self._open[oldest].first)

    def _forget_trimmed(self) -> None:
        """Forgets aborted transactions whose marker was deleted with its ledger: the ledgers of their messages were
        deleted before."""
        first = self._log.first_position.ledger_id
        while self._aborted:
            txn_id, marker = next(iter(self._aborted.items()))
            if marker.ledger_id >= first:
                return
            del self._aborted[txn_id]
