"""Decides which transaction holds which messages of a subscription. Does no I/O.

A transaction holds what it has acknowledged, from its acknowledgement until its end. An individual acknowledgement
holds whole entries or some messages of a batch; two transactions never hold the same message. Besides, at most one
transaction holds a cumulative acknowledgement. When a transaction commits, the caller acknowledges what `let_go`
returns on the subscription's cursor; when it aborts, the caller delivers it again.

What an acknowledgement may not hold is a conflict, with the texts of Apache's broker. Source: PendingAckHandleImpl.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyroaring import BitMap

from magnetar.server.topics.subscriptions.pending_acks.batch_parts import (
    BATCH_MESSAGES_MAX,
    WHOLE,
    BatchPart,
    part_of,
    position_of,
)
from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask
from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END
from pulsar_proto.errors import TransactionConflict
from pulsar_proto.ids import Position, TxnId, signed64
from pulsar_proto.records.pending_ack_log import (
    RECORD_POSITIONS_MAX,
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
)

ENDED_MAX = 10_000
"""How many ended transactions a subscription remembers, to refuse acknowledgements that come after the end. When there
are more, the oldest are forgotten."""

STEP_POSITIONS = 500
"""How many entries of a record are replayed in one step."""

JAVA_CONFLICT = "org.apache.pulsar.transaction.common.exception.TransactionConflictException: "


class CursorAcks(Protocol):
    """The cursor of the subscription, as far as the rules ask it. `magnetar.storage.managed.cursor.Cursor` implements
    the interface."""

    @property
    def mark_delete(self) -> Position: ...

    def is_acked(self, ledger_id: int, entry_id: int) -> bool: ...

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None: ...

    def unacked_among(self, ledger_id: int, entries: BitMap) -> int: ...


Parts = dict[tuple[int, int], BatchPart]
"""(ledger, entry) -> the messages of the entry."""


class Held(NamedTuple):
    """What a transaction has held until its end."""

    parts: Mapping[tuple[int, int], BatchPart]
    cumulative: PendingPosition | None

    @property
    def acks(self) -> list[tuple[int, int, Sequence[int] | None]]:
        """Returns the individual acknowledgements in the form that `Cursor.ack` takes."""
        return [
            (ledger_id, entry_id, None if part is WHOLE else words_of_mask(part.rest) or None)
            for (ledger_id, entry_id), part in self.parts.items()
        ]


class PendingAckRules:
    """The acknowledgements of one subscription in transactions."""

    __slots__ = ("_cumulative", "_cursor", "_ended", "_held", "_label", "_parts", "_whole", "low_watermarks")

    def __init__(self, topic: str, subscription: str, cursor: CursorAcks) -> None:
        self._label = f"[{topic}][{subscription}] "
        self._cursor = cursor
        self._held: dict[TxnId, Parts] = {}
        """What each transaction holds individually. A transaction that holds nothing may be in the table, too: then its
        end must be stored nevertheless, because the log may know more of it."""
        self._whole: dict[int, BitMap] = {}
        """The entries of each ledger that are held as a whole."""
        self._parts: dict[int, dict[int, BatchPart]] = {}
        """The entries of each ledger that are held in part, with what all transactions together hold of them."""
        self._cumulative: tuple[TxnId, PendingPosition] | None = None
        self._ended: dict[TxnId, None] = {}
        self.low_watermarks: dict[int, int] = {}
        """The number of each coordinator -> a number up to which all of its transactions have ended."""

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def transactions(self) -> int:
        """How many transactions hold something."""
        holder = self._cumulative[0] if self._cumulative is not None else None
        return len(self._held) + (holder is not None and holder not in self._held)

    @property
    def holders(self) -> list[TxnId]:
        """The transactions that hold something, the oldest acknowledgement first."""
        holder = [] if self._cumulative is None else [self._cumulative[0]]
        return list(dict.fromkeys([*self._held, *holder]))

    @property
    def cumulative(self) -> tuple[TxnId, PendingPosition] | None:
        """The transaction that holds a cumulative acknowledgement, and its position."""
        return self._cumulative

    def holds(self, txn_id: TxnId) -> bool:
        return txn_id in self._held or (self._cumulative is not None and self._cumulative[0] == txn_id)

    def has_ended(self, txn_id: TxnId) -> bool:
        """Whether the transaction is known to have ended. The subscription forgets most transactions at some time."""
        watermark = self.low_watermarks.get(txn_id.most)
        return txn_id in self._ended or (watermark is not None and signed64(txn_id.least) <= watermark)

    def positions_of(self, txn_id: TxnId) -> Iterable[tuple[int, int]]:
        """Returns the entries that the transaction holds individually, as a whole or in part."""
        return self._held.get(txn_id, {})

    def count_of(self, txn_id: TxnId) -> int:
        """Returns how many entries the transaction holds individually, as a whole or in part."""
        return len(self._held.get(txn_id, ()))

    def held_of(self, ledger_id: int, entry_id: int) -> BatchPart | None:
        """Returns the messages of an entry that transactions hold by individual acknowledgements, or None."""
        whole = self._whole.get(ledger_id)
        if whole is not None and entry_id in whole:
            return WHOLE
        parts = self._parts.get(ledger_id)
        return None if parts is None else parts.get(entry_id)

    def entries_held(self, ledger_id: int, first: int, count: int) -> list[tuple[int, BatchPart]]:
        """Returns those of the entries first .. first+count-1 of which transactions hold something, in order."""
        found: list[tuple[int, BatchPart]] = []
        whole = self._whole.get(ledger_id)
        if whole is not None:
            found += [(entry_id, WHOLE) for entry_id in whole & BitMap(range(first, first + count))]
        parts = self._parts.get(ledger_id)
        if parts is not None:
            among = range(first, first + count) if count < len(parts) else parts
            found += [(each, parts[each]) for each in among if each in parts and first <= each < first + count]
            found.sort()
        return found

    def records(self) -> Iterator[PendingAckRecord]:
        """Yields acknowledgements that make the present state when they are replayed. Other work may run between them,
        but no transaction may end meanwhile."""
        for txn_id, parts in list(self._held.items()):
            keys = list(parts)
            for start in range(0, len(keys), RECORD_POSITIONS_MAX):
                some = keys[start : start + RECORD_POSITIONS_MAX]
                positions = tuple(position_of(key, parts[key]) for key in some if key in parts)
                if positions:
                    yield PendingAckRecord(PendingAckOp.ACK, txn_id, False, positions)
        if self._cumulative is not None:
            txn_id, position = self._cumulative
            yield PendingAckRecord(PendingAckOp.ACK, txn_id, True, (position,))

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def check(self, txn_id: TxnId, positions: Sequence[PendingPosition]) -> None:
        """Raises TransactionConflict when one of these individual acknowledgements covers messages that are
        acknowledged on the cursor, or that a transaction holds, be it the same one."""
        for position in positions:
            part, key = part_of(position), (position.ledger_id, position.entry_id)
            words = None if part is WHOLE else self._cursor.ack_set_of(*key)
            if self._cursor.is_acked(*key) or (words is not None and part.bits & ~mask_of_words(words)):
                self._conflict(txn_id, f"try to ack message:{_text(position)} already acked before.")
            held = self.held_of(*key)
            if held is not None and held.bits & part.bits:
                kind = "message" if part is WHOLE else "batch message"
                self._conflict(txn_id, f"try to ack {kind}:{_text(position)} in pending ack status.")

    def check_cumulative(self, txn_id: TxnId, position: PendingPosition) -> None:
        """Raises TransactionConflict when this cumulative acknowledgement is not beyond the mark-delete position, not
        beyond the transaction's own one, or when another transaction holds one."""
        mark_delete = self._cursor.mark_delete
        if position.position <= mark_delete:
            self._conflict(
                txn_id,
                f"try to cumulative ack position: {_text_cumulative(position)} within range of cursor's "
                f"markDeletePosition: {mark_delete}",
            )
        if self._cumulative is None:
            return
        holder, current = self._cumulative
        if holder != txn_id or _reach(position) <= _reach(current):
            self._conflict(
                txn_id,
                f"try to cumulative batch ack position: {_text_cumulative(position)} within range of current "
                f"currentPosition: {_text_cumulative(current)}",
            )

    def _conflict(self, txn_id: TxnId, text: str) -> None:
        raise TransactionConflict(f"{JAVA_CONFLICT}{self._label}Transaction:{txn_id} {text}")

    def hold(self, txn_id: TxnId, positions: Iterable[PendingPosition]) -> None:
        """Holds messages for a transaction, after `check`."""
        held = self._held.setdefault(txn_id, {})
        for position in positions:
            key = position.ledger_id, position.entry_id
            part, before = part_of(position), held.get(key)
            if before is WHOLE:
                continue
            if before is not None and part is WHOLE:
                self._remove(*key, before)
            held[key] = part if before is None or part is WHOLE else before.joined(part)
            self._add(*key, part)

    def hold_entries(self, txn_id: TxnId, entries: Sequence[tuple[int, int]]) -> bool:
        """Does what `check` and `hold` do for each of these entries, and returns True. Returns False, and holds
        nothing, when one of them may not be held, or is held by somebody in part: then only `check` can tell."""
        ledgers: dict[int, list[int]] = {}
        for ledger_id, entry_id in entries:
            ledgers.setdefault(ledger_id, []).append(entry_id)
        held: dict[int, BitMap] = {}
        for ledger_id, ids in ledgers.items():
            if ledger_id in self._parts or max(ids) >= ENTRY_ID_END:
                return False
            new, whole = BitMap(ids), self._whole.get(ledger_id)
            if self._cursor.unacked_among(ledger_id, new) < len(ids) or (whole is not None and whole.intersect(new)):
                return False
            held[ledger_id] = new if whole is None else whole | new
        self._whole.update(held)
        self._held.setdefault(txn_id, {}).update(dict.fromkeys(entries, WHOLE))
        return True

    def hold_cumulative(self, txn_id: TxnId, position: PendingPosition) -> None:
        """Holds a cumulative acknowledgement for a transaction, after `check_cumulative`."""
        self._cumulative = (txn_id, position)

    def undo(self, txn_id: TxnId, positions: Iterable[PendingPosition]) -> None:
        """Lets go of what `hold` was called for, because it could not be stored. The transaction stays known, because
        the log may have it nevertheless."""
        held = self._held.get(txn_id, {})
        for position in positions:
            key = position.ledger_id, position.entry_id
            part, before = part_of(position), held.get(key)
            if before is None or (before is WHOLE and part is not WHOLE):
                continue
            if part.bits == before.bits:
                del held[key]
            else:
                held[key] = BatchPart(before.bits & ~part.bits, before.size)
            self._remove(*key, part)

    def undo_cumulative(
        self, txn_id: TxnId, position: PendingPosition, before: tuple[TxnId, PendingPosition] | None
    ) -> None:
        """Restores what was held before `hold_cumulative`, because the new acknowledgement could not be stored. Has no
        effect if the transaction has acknowledged more since."""
        if self._cumulative == (txn_id, position):
            self._cumulative = before
            self._held.setdefault(txn_id, {})

    def _add(self, ledger_id: int, entry_id: int, part: BatchPart) -> None:
        if part is WHOLE:
            self._whole.setdefault(ledger_id, BitMap()).add(entry_id)
            return
        parts = self._parts.setdefault(ledger_id, {})
        before = parts.get(entry_id)
        parts[entry_id] = part if before is None else before.joined(part)

    def _remove(self, ledger_id: int, entry_id: int, part: BatchPart) -> None:
        if part is WHOLE:
            whole = self._whole.get(ledger_id)
            if whole is not None:
                whole.discard(entry_id)
                if not whole:
                    del self._whole[ledger_id]
            return
        parts = self._parts[ledger_id]
        left = parts[entry_id].bits & ~part.bits
        if left:
            parts[entry_id] = BatchPart(left, parts[entry_id].size)
        else:
            del parts[entry_id]
            if not parts:
                del self._parts[ledger_id]

    # --- ends of transactions ----------------------------------------------------------------------------------------

    def let_go(self, txn_id: TxnId, at_most: int | None = None) -> Held:
        """Ends a transaction here: returns what it has held, and holds nothing for it any more. With `at_most`, returns
        this many entries at a time; the caller repeats that until the transaction holds nothing."""
        parts = self._held.get(txn_id, {})
        if at_most is None or at_most >= len(parts):
            self._held.pop(txn_id, None)
        else:
            parts = dict(parts.popitem() for _ in range(at_most))
        for (ledger_id, entry_id), part in parts.items():
            self._remove(ledger_id, entry_id, part)
        cumulative = None
        if txn_id not in self._held and self._cumulative is not None and self._cumulative[0] == txn_id:
            cumulative = self._cumulative[1]
            self._cumulative = None
        return Held(parts, cumulative)

    def note_end(self, txn_id: TxnId, low_watermark: int | None = None) -> None:
        """Remembers that a transaction has ended, and that all transactions of its coordinator up to `low_watermark`
        (signed, inclusive) have."""
        self._ended[txn_id] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        before = self.low_watermarks.get(txn_id.most)
        if low_watermark is not None and (before is None or low_watermark > before):
            self.low_watermarks[txn_id.most] = low_watermark

    def orphans(self, most: int) -> list[TxnId]:
        """Returns the transactions of a coordinator that hold something although they have ended, as the coordinator's
        low watermark says. No END will come for them: they did not register the subscription."""
        watermark = self.low_watermarks.get(most)
        if watermark is None:
            return []
        return [each for each in self.holders if each.most == most and signed64(each.least) <= watermark]

    def clear(self) -> None:
        """Forgets everything, before the log is read again from its beginning."""
        self._held.clear()
        self._whole.clear()
        self._parts.clear()
        self._ended.clear()
        self._cumulative = None

    # --- recovery ----------------------------------------------------------------------------------------------------

    def replay(self, record: PendingAckRecord) -> Iterator[Held | None]:
        """Applies a record of the log in steps. A step yields what a committed transaction has held, which the caller
        acknowledges on the cursor, or None. Other work may run after each step, but the next call of this object that
        is no question is made after the last one.

        Apache's broker appends an acknowledgement before it looks for conflicts, so the log may hold an acknowledgement
        that was refused. Such a record is recognized by messages that another transaction holds, and is passed over.
        Messages that are acknowledged on the cursor are no conflict here: the cursor may have been stored after the
        record, so only these messages are left out."""
        if record.op is not PendingAckOp.ACK:
            while self.holds(record.txn_id):
                held = self.let_go(record.txn_id, STEP_POSITIONS)
                yield held if record.op is PendingAckOp.COMMIT else None
            self.note_end(record.txn_id)
        elif record.is_cumulative:
            self._replay_cumulative(record.txn_id, record.positions[0])
        else:
            yield from self._replay_individual(record.txn_id, record.positions)

    def _replay_cumulative(self, txn_id: TxnId, position: PendingPosition) -> None:
        try:
            self.check_cumulative(txn_id, position)
        except TransactionConflict:
            return
        self.hold_cumulative(txn_id, position)

    def _replay_individual(self, txn_id: TxnId, positions: Sequence[PendingPosition]) -> Iterator[None]:
        wanted: list[PendingPosition] = []
        for start in range(0, len(positions), STEP_POSITIONS):
            for position in positions[start : start + STEP_POSITIONS]:
                kept = self._kept_in_replay(txn_id, position)
                if kept is None:
                    return
                if kept:
                    wanted.append(position)
            yield None
        self.hold(txn_id, ())  # so that the transaction is known, whatever is left of its acknowledgement
        for start in range(0, len(wanted), STEP_POSITIONS):
            self.hold(txn_id, wanted[start : start + STEP_POSITIONS])
            yield None

    def _kept_in_replay(self, txn_id: TxnId, position: PendingPosition) -> bool | None:
        """Returns whether a replayed acknowledgement holds this entry, or None when another transaction holds it."""
        part, key = part_of(position), (position.ledger_id, position.entry_id)
        held = self.held_of(*key)
        if held is not None and held.bits & part.bits:
            mine = self._held.get(txn_id, {}).get(key)
            return None if mine is None or held.bits & part.bits & ~mine.bits else False
        return not self._cursor.is_acked(*key)


def _reach(position: PendingPosition) -> tuple[int, int, int]:
    """Returns a number that is larger for a cumulative acknowledgement that covers more."""
    mask = mask_of_words(position.ack_set) if any(position.ack_set) else 0
    first_left = (mask & -mask).bit_length() - 1 if mask else BATCH_MESSAGES_MAX
    return position.ledger_id, position.entry_id, first_left


def _text(position: PendingPosition) -> str:
    ack_set = f"with long[] size of {len(position.ack_set)}" if any(position.ack_set) else "is null"
    return f"{position.position} (ackSet {ack_set})"


def _text_cumulative(position: PendingPosition) -> str:
    return _text(position) if any(position.ack_set) else str(position.position)
