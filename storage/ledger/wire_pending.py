"""Which request an answer belongs to: the adds and reads that one connection to a bookie has under way. No I/O.

Adds. A group is what one `add_entries` call handed over; its `done` is called once with all ids when all are stored,
and at once with the ids that failed. Answers come in order in the usual case, which costs an index per group; a group
whose answers come in any order keeps a set from then on. An answer that nobody awaits is dropped: it may be late.

Reads of v2 carry no id of the request: an answer names ledger and entry only. So a fencing read must never be under way
together with a plain one of the same entry, or the plain one's answer could be taken for the fence's, before the fence
is durable. `ReadTable.conflict` says so; Java's client lets any answer complete any of them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

AddDone = Callable[[Sequence[int], int], None]

EOK = 0


class PendingAdds:
    """One call's adds. `index` counts its entries from 0."""

    __slots__ = ("_failed", "_missing", "_next", "deadline", "done", "ids", "left", "size", "txn_id")

    def __init__(self, ids: Sequence[int], done: AddDone, size: int, deadline: float, txn_id: int = 0) -> None:
        self.ids = ids
        self.done = done
        self.size = size
        """Bytes of the entries."""
        self.deadline = deadline
        self.txn_id = txn_id
        """v3: of the first entry; the others follow."""
        self.left = len(ids)
        self._next = 0
        self._missing: set[int] | None = None
        self._failed: set[int] | None = None

    def index_of(self, entry_id: int) -> int | None:
        """None when it is not of this group, or was answered."""
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
        """How many of `count` entries from `index` on, which is awaited, have consecutive ids and are awaited too."""
        ids = self.ids
        count = min(count, len(ids) - index)
        if type(ids) is not range or ids.step != 1 or self._missing is not None:
            return 1
        return count

    def take(self, index: int, count: int, rc: int) -> None:
        """These are answered. The caller calls `finish` when none is `left`."""
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
        """All are answered: those that did not fail are stored."""
        if self._failed is None:
            self.done(self.ids, EOK)
            return
        stored = [entry_id for index, entry_id in enumerate(self.ids) if index not in self._failed]
        if stored:
            self.done(stored, EOK)

    def give_up(self, rc: int) -> None:
        """No more answers: what is awaited fails with `rc`, what was answered counts."""
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
    """The adds under way on one connection, by ledger (v2) or by transaction (v3), and all by age."""

    __slots__ = ("_by_age", "_by_ledger", "_by_txn", "bytes")

    def __init__(self) -> None:
        self._by_ledger: dict[int, deque[PendingAdds]] = {}
        self._by_txn: dict[int, PendingAdds] = {}
        self._by_age: deque[PendingAdds] = deque()
        self.bytes = 0

    def put(self, ledger_id: int, group: PendingAdds) -> None:
        groups = self._by_ledger.get(ledger_id)
        if groups is None:
            groups = self._by_ledger[ledger_id] = deque()
        groups.append(group)
        self._count(group)

    def put_txns(self, group: PendingAdds) -> None:
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
        """v2: consecutive entries have one outcome."""
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
        """v3: consecutive transactions have one outcome."""
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
        by_age = self._by_age
        while by_age and not by_age[0].left:
            by_age.popleft()
        return by_age[0] if by_age else None

    def expire(self, now: float, rc: int) -> bool:
        """Gives up what is older than its deadline; True when there was something."""
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
        """The connection is gone."""
        groups, self._by_age = self._by_age, deque()
        self._by_ledger.clear()
        self._by_txn.clear()
        self.bytes = 0
        for group in groups:
            if group.left:
                group.give_up(rc)


class Conflict(Enum):
    """What stands in the way of a v2 read."""

    NONE = "none"
    WAIT = "wait"
    """For the read under way: it will be answered, or time out."""
    RECONNECT = "reconnect"
    """An answer is owed that nobody awaits any more, and it could be taken for the fence's."""


class ReplyFuture(Protocol):
    """The part of `asyncio.Future` that is used here."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class ReadWait:
    __slots__ = ("deadline", "fencing", "outcome")

    def __init__(self, outcome: ReplyFuture, fencing: bool, deadline: float) -> None:
        self.outcome = outcome
        self.fencing = fencing
        self.deadline = deadline

    @property
    def abandoned(self) -> bool:
        """Timed out or cancelled; its answer is still owed."""
        return self.outcome.done()


class ReadTable:
    """The single reads of v2 under way on one connection, by (ledger, entry)."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: dict[tuple[int, int], deque[ReadWait]] = {}

    def conflict(self, ledger_id: int, entry_id: int, fencing: bool) -> Conflict:
        for wait in self._waits.get((ledger_id, entry_id), ()):
            if wait.fencing != fencing:
                if not wait.abandoned:
                    return Conflict.WAIT
                if fencing:
                    return Conflict.RECONNECT
        return Conflict.NONE

    def other_kind(self, ledger_id: int, entry_id: int, fencing: bool) -> ReadWait:
        """The read that a conflict waits for."""
        return next(w for w in self._waits[ledger_id, entry_id] if w.fencing != fencing and not w.abandoned)

    def put(self, ledger_id: int, entry_id: int, wait: ReadWait) -> None:
        self._waits.setdefault((ledger_id, entry_id), deque()).append(wait)

    def answered(self, ledger_id: int, entry_id: int) -> ReadWait | None:
        """The oldest read of it; None when none is under way."""
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
