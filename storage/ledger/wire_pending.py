"""Finds the request that an answer belongs to. Holds the adds and reads that one connection to a bookie has under way.
No I/O.

Adds. The entries of one `add_entries` call are one group. The group's `done` is called at once with ids that failed,
and once with all other ids as soon as every entry is answered. Answers usually come in order, so a group needs only the
index of the next awaited answer. When its answers come in another order, a group keeps a set of the missing answers
from then on. An answer that nobody awaits is dropped, because it may belong to an add that has timed out.

Reads of v2 carry no request id: an answer names only ledger and entry. So a fencing read must never be under way
together with a plain one of the same entry, or the answer of the plain read could be mistaken for that of the fencing
read before the fence is durable. `ReadTable.conflict` prevents this. In Java's client an answer may complete any read
of its entry.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from magnetar.storage.ledger.bookie_channel import AddDone

EOK = 0


class PendingAdds:
    """The adds of one call. An `index` counts the entries of this call from 0."""

    __slots__ = ("_failed", "_missing", "_next", "deadline", "done", "ids", "left", "size", "txn_id")

    def __init__(self, ids: Sequence[int], done: AddDone, size: int, deadline: float, txn_id: int = 0) -> None:
        self.ids = ids
        self.done = done
        self.size = size
        """The size of all entries together, in bytes."""
        self.deadline = deadline
        self.txn_id = txn_id
        """The txnId of the first entry in protocol v3. The other entries have the consecutive txnIds after it."""
        self.left = len(ids)
        self._next = 0
        self._missing: set[int] | None = None
        self._failed: set[int] | None = None

    def index_of(self, entry_id: int) -> int | None:
        """Returns the entry's index, or None when it is not in this group or was answered already."""
        ids, following = self.ids, self._next
        if self._missing is None and following < len(ids) and ids[following] == entry_id:
            return following
        if entry_id not in ids:
            return None
        index = ids.index(entry_id)
        return index if self.awaits(index) else None

    def awaits(self, index: int) -> bool:
        return index in self._missing if self._missing is not None else self._next <= index < len(self.ids)

    def run_at(self, index: int, count: int) -> int:
        """Returns how many of the `count` entries from `index` on have consecutive ids and are still awaited. The entry
        at `index` is awaited."""
        ids = self.ids
        count = min(count, len(ids) - index)
        if type(ids) is not range or ids.step != 1 or self._missing is not None:
            return 1
        return count

    def take(self, index: int, count: int, rc: int) -> None:
        """Notes that these entries were answered. The caller calls `finish` when none is `left`."""
        if self._missing is None and index == self._next:
            self._next += count
        else:
            if self._missing is None:
                self._missing = set(range(self._next, len(self.ids)))
            self._missing.difference_update(range(index, index + count))
        self.left -= count
        if rc != EOK:
            if self._failed is None:
                self._failed = set()
            self._failed.update(range(index, index + count))
            self.done(self.ids[index : index + count], rc)

    def finish(self) -> None:
        """Called when all entries of the group are answered: reports those that did not fail as stored."""
        if self._failed is None:
            self.done(self.ids, EOK)
            return
        stored = [entry_id for index, entry_id in enumerate(self.ids) if index not in self._failed]
        if stored:
            self.done(stored, EOK)

    def give_up(self, rc: int) -> None:
        """Gives up waiting: entries without an answer fail with `rc`; earlier answers count."""
        ids = self.ids
        awaited = self._missing if self._missing is not None else range(self._next, len(ids))
        answered = [index for index in range(len(ids)) if index not in awaited]
        if self._failed is not None:
            answered = [index for index in answered if index not in self._failed]
        unanswered = [ids[index] for index in sorted(awaited)]
        self.left = 0
        if answered:
            self.done([ids[index] for index in answered], EOK)
        if unanswered:
            self.done(ids if len(unanswered) == len(ids) else unanswered, rc)


class AddTable:
    """The adds under way on one connection: by ledger (v2) or by transaction (v3), and all of them by age."""

    __slots__ = ("_by_age", "_by_ledger", "_by_txn", "bytes")

    def __init__(self) -> None:
        self._by_ledger: dict[int, deque[PendingAdds]] = {}
        self._by_txn: dict[int, PendingAdds] = {}
        self._by_age: deque[PendingAdds] = deque()
        self.bytes = 0

    def put(self, ledger_id: int, group: PendingAdds) -> None:
        """Adds a group of v2."""
        groups = self._by_ledger.get(ledger_id)
        if groups is None:
            groups = self._by_ledger[ledger_id] = deque()
        groups.append(group)
        self._count(group)

    def put_txns(self, group: PendingAdds) -> None:
        """Adds a group of v3."""
        for txn_id in range(group.txn_id, group.txn_id + len(group.ids)):
            self._by_txn[txn_id] = group
        self._count(group)

    def _count(self, group: PendingAdds) -> None:
        by_age = self._by_age
        while by_age and not by_age[0].left:
            by_age.popleft()
        by_age.append(group)
        self.bytes += group.size

    def answered(self, ledger_id: int, first_entry_id: int, count: int, rc: int) -> None:
        """Called in v2 when `count` entries from `first_entry_id` on were answered with `rc`."""
        groups = self._by_ledger.get(ledger_id)
        while count and groups:
            found = next(
                ((group, at) for group in groups if group.left and (at := group.index_of(first_entry_id)) is not None),
                None,
            )
            taken = 1
            if found is not None:
                group, index = found
                taken = group.run_at(index, count)
                self._take(group, index, taken, rc, ledger_id)
            first_entry_id += taken
            count -= taken

    def _take(self, group: PendingAdds, index: int, count: int, rc: int, ledger_id: int | None) -> None:
        last = group.left == count
        if last:
            self.bytes -= group.size
            if ledger_id is not None:
                self._drop_answered(ledger_id, group)
        group.take(index, count, rc)
        if last:
            group.finish()

    def _drop_answered(self, ledger_id: int, group: PendingAdds) -> None:
        groups = self._by_ledger[ledger_id]
        if groups[0] is group:
            groups.popleft()
        else:
            groups.remove(group)
        while groups and not groups[0].left:
            groups.popleft()
        if not groups:
            del self._by_ledger[ledger_id]

    def answered_txns(self, txn_id: int, count: int, rc: int) -> None:
        """Called in v3 when `count` transactions from `txn_id` on were answered with `rc`."""
        by_txn = self._by_txn
        end = txn_id + count
        while txn_id < end:
            group = by_txn.pop(txn_id, None)
            first = txn_id
            txn_id += 1
            if group is None:
                continue
            while txn_id < end and by_txn.get(txn_id) is group:
                del by_txn[txn_id]
                txn_id += 1
            if group.left:
                self._take(group, first - group.txn_id, txn_id - first, rc, None)

    def oldest(self) -> PendingAdds | None:
        """Returns the group that has waited longest for an answer, or None."""
        by_age = self._by_age
        while by_age and not by_age[0].left:
            by_age.popleft()
        return by_age[0] if by_age else None

    def expire(self, now: float, rc: int) -> bool:
        """Gives up all adds whose deadline has passed. Returns whether there were any."""
        expired = False
        while (group := self.oldest()) is not None and group.deadline <= now:
            expired = True
            self.bytes -= group.size
            group.give_up(rc)
        if expired:
            self._sweep()
        return expired

    def _sweep(self) -> None:
        for ledger_id, groups in list(self._by_ledger.items()):
            self._by_ledger[ledger_id] = living = deque(group for group in groups if group.left)
            if not living:
                del self._by_ledger[ledger_id]
        self._by_txn = {txn_id: group for txn_id, group in self._by_txn.items() if group.left}

    def give_up_all(self, rc: int) -> None:
        """Fails all adds that have no answer, because the connection is gone."""
        groups, self._by_age = self._by_age, deque()
        self._by_ledger.clear()
        self._by_txn.clear()
        self.bytes = 0
        for group in groups:
            if group.left:
                group.give_up(rc)


class Conflict(Enum):
    """Whether a v2 read may be sent now and, if not, what has to happen first."""

    NONE = "none"
    WAIT = "wait"
    """Another read of the entry is under way. The caller has to wait until that read is answered or times out."""
    RECONNECT = "reconnect"
    """The bookie still owes an answer that nobody awaits any more. That answer could be mistaken for the answer of the
    fencing read, so a new connection is needed."""


class ReplyFuture(Protocol):
    """The part of `asyncio.Future` that is used here."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class ReadWait:
    """One v2 read that waits for its answer."""

    __slots__ = ("deadline", "fencing", "outcome")

    def __init__(self, outcome: ReplyFuture, fencing: bool, deadline: float) -> None:
        self.outcome = outcome
        self.fencing = fencing
        self.deadline = deadline

    @property
    def abandoned(self) -> bool:
        """Whether the read timed out or was cancelled. The bookie still owes the answer to such a read."""
        return self.outcome.done()


class ReadTable:
    """The single v2 reads under way on one connection, by (ledger, entry)."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: dict[tuple[int, int], deque[ReadWait]] = {}

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for an answer."""
        return any(not wait.abandoned for wait in self.all())

    def conflict(self, ledger_id: int, entry_id: int, fencing: bool) -> Conflict:
        """Says whether a read may be sent now, given the reads of the same entry that are under way."""
        for wait in self._waits.get((ledger_id, entry_id), ()):
            if wait.fencing != fencing:
                if not wait.abandoned:
                    return Conflict.WAIT
                if fencing:
                    return Conflict.RECONNECT
        return Conflict.NONE

    def other_kind(self, ledger_id: int, entry_id: int, fencing: bool) -> ReadWait:
        """Returns the read for which a caller has to wait after Conflict.WAIT."""
        return next(w for w in self._waits[ledger_id, entry_id] if w.fencing != fencing and not w.abandoned)

    def put(self, ledger_id: int, entry_id: int, wait: ReadWait) -> None:
        self._waits.setdefault((ledger_id, entry_id), deque()).append(wait)

    def answered(self, ledger_id: int, entry_id: int) -> ReadWait | None:
        """Called when a read of this entry is answered. Returns the oldest read of the entry, to which the answer
        belongs, or None when there is none."""
        key = (ledger_id, entry_id)
        waits = self._waits.get(key)
        if waits is None:
            return None
        wait = waits.popleft()
        if not waits:
            del self._waits[key]
        return wait

    def all(self) -> list[ReadWait]:
        return [wait for waits in self._waits.values() for wait in waits]
