"""The rules of a writer: groups of entries on their way to an ensemble. No I/O, clock or randomness.

`AppendMachine` decides which bookie gets which entries, which acknowledgements count, in which order groups are
confirmed, what an ensemble change un-acknowledges and sends again, and when a silent bookie counts as failed. The
machine sends nothing, writes no metadata and has no timer: its shell, `ensemble_writer.EnsembleWriter`, does all of
that. See docs/LEDGERS.md, "Writing" and "Ensemble changes".

How the shell drives it:

1. `push(append)` returns the `Send`s to hand to the bookies' channels. A `Send` is itself the channel's `done`
   callback.
2. Each answer goes to `answered(send, ids, rc)`. If that call returns True, the shell looks at `broken`, then at
   `must_change`, and then takes groups from `confirm_next()` until that returns None.
3. When `broken` is set, the writer has ended: the shell calls `end(error)`, which returns the appends to fail.
4. When `must_change` is True, the shell calls `begin_change()`. Then, until `take_failed()` is empty, it writes new
   metadata with the fragment key `last_add_confirmed + 1`, calls `ensemble_changed(members)` and hands out the sends
   that this returns. At last the shell calls `resume()`. Nothing is confirmed during the change, so the key stays
   right. When another bookie fails during the change, `take_failed()` names it, and the loop goes on.
5. `tick()` is called at a steady pace while something is unanswered.
6. `take_refused()` returns the sends that an overloaded bookie did not take. The shell repeats each send after a while,
   if the send is still `wanted`. Meanwhile the send counts as unanswered, so its deadline holds.

Invariants:

- Entries are confirmed in order of id, each after Qa acknowledgements from bookies that are in the ensemble at that
  index now. An answer of a bookie that has been replaced counts for nothing; the machine recognises such an answer by
  `Send.generation`.
- All unconfirmed entries belong to the last fragment, whose key is at most LAC + 1.
- A group is confirmed as a whole, so the LAC never stands inside one.
- The confirmed entries that a bookie has not answered have at most `lagging_bytes_max` bytes, because nothing further
  ahead of the bookie is confirmed.

Source: PendingAddOp, LedgerHandle.sendAddSuccessCallbacks, EnsembleUtils.replaceBookiesInEnsemble.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from magnetar.storage.ledger.append_group_rules import AnswerSink, Append, Send
from magnetar.storage.ledger.ledger_errors import BookieTimeout, LedgerError, ends_writer, error_class
from magnetar.storage.ledger.overload_rules import is_overload
from magnetar.storage.ledger.quorum_rules import check_sizes, held_ids

ANSWER_TICKS = 4
"""A send times out when it is unanswered for this many whole ticks. The shell ticks this many times in the time that
`add_entry_timeout_sec` allows."""


class Phase(Enum):
    """Whether the writer confirms entries, changes its ensemble, or has ended."""

    OPEN = "open"
    CHANGING = "changing"
    """An ensemble change is under way: entries are taken and sent, nothing is confirmed."""
    ENDED = "ended"


OPEN: Final = Phase.OPEN
CHANGING: Final = Phase.CHANGING
ENDED: Final = Phase.ENDED
"""The phases by names of their own, for code that runs for every message: Python looks up a member of an Enum ten times
slower than a name of the module."""


class AppendMachine:
    """The writer's state machine; the module's text says how it is driven. Each `Send` passes its answers to `sink`;
    the machine itself never calls `sink`."""

    __slots__ = (
        "_ack_quorum",
        "_ensemble_size",
        "_failed",
        "_generations",
        "_lagging_bytes_max",
        "_pending",
        "_refused",
        "_replacing",
        "_sink",
        "_tick",
        "_windows",
        "_write_quorum",
        "broken",
        "ensemble",
        "had_fault",
        "last_add_confirmed",
        "last_add_pushed",
        "length",
        "length_confirmed",
        "phase",
    )

    def __init__(
        self,
        ensemble: Sequence[str],
        write_quorum: int,
        ack_quorum: int,
        *,
        sink: AnswerSink,
        lagging_bytes_max: int,
        last_add_confirmed: int = -1,
        length: int = 0,
    ) -> None:
        size = len(ensemble)
        check_sizes(size, write_quorum, ack_quorum)
        self.phase = OPEN
        self.ensemble = tuple(ensemble)
        self.last_add_confirmed = last_add_confirmed
        self.last_add_pushed = last_add_confirmed
        self.length = length
        self.length_confirmed = length
        self.broken: LedgerError | None = None
        self.had_fault = False
        """Whether a bookie has ever failed or refused a send. While this is False, the shell need not look at
        `take_refused`, `broken` and `must_change`; it is one field, because the shell looks after every answer."""
        self._ensemble_size = size
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        # A bookie's window holds the sends that the bookie has not answered. With Qa = Qw an entry is confirmed only
        # after its whole write set has answered, so all entries of a window belong to pending appends. The caller
        # limits these, and the window needs no limit of its own. 0 stands for none.
        self._lagging_bytes_max = lagging_bytes_max if ack_quorum < write_quorum else 0
        self._sink = sink
        self._tick = 0
        self._pending: deque[Append] = deque()
        self._failed: dict[int, int] = {}
        self._refused: list[tuple[Send, Sequence[int]]] = []
        self._replacing: frozenset[int] = frozenset()
        self._generations = [0] * size
        self._windows: list[deque[Send]] = [deque() for _ in range(size)]

    @property
    def pending_entries(self) -> int:
        return self.last_add_pushed - self.last_add_confirmed

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    @property
    def must_change(self) -> bool:
        """Whether a bookie failed and no change is under way.

        While no append is pending, this is False: the entries that the bookie has not acknowledged are confirmed
        already, so the failed bookie is replaced at the next append, as in Apache's client.
        """
        return bool(self._failed) and bool(self._pending) and self.phase is OPEN

    def push(self, append: Append) -> list[Send]:
        """Takes the next group, whose ids must follow `last_add_pushed`. Returns the sends to make, in order of
        index."""
        assert append.first_entry_id == self.last_add_pushed + 1, (append.first_entry_id, self.last_add_pushed)
        assert self.phase is not ENDED, "the writer has ended"
        if self._ensemble_size != self._write_quorum:
            append._masks = [0] * len(append.ids)
        self._pending.append(append)
        self.last_add_pushed = append.last_entry_id
        self.length = append.length
        sends: list[Send] = []
        if not self.had_fault:
            for index in range(self._ensemble_size):
                self._send(append, index, sends)
            return sends
        for index in range(self._ensemble_size):
            if index not in self._failed and index not in self._replacing:
                self._send(append, index, sends)
        return sends

    def answered(self, send: Send, ids: Sequence[int], rc: int) -> bool:
        """Takes a bookie's answer to a send: the return code `rc` for the entries `ids`. Returns True when the shell
        has something to do."""
        if rc and is_overload(rc):
            send.refusals += 1
            self.had_fault = True
            self._refused.append((send, ids))
            return True
        send.left -= len(ids)
        assert send.left >= 0, (send.ids, ids)
        index = send.index
        if send.generation != self._generations[index] or self.phase is ENDED:
            return False
        if not send.left:
            window = self._windows[index]
            while window and not window[0].left:
                window.popleft()
        if rc:
            self._note_failure(index, rc)
            return True
        send.append.acknowledge(index, ids, self._ack_quorum)
        return self.phase is OPEN and bool(self._pending) and not self._pending[0]._short

    def take_refused(self) -> list[tuple[Send, Sequence[int]]]:
        """Returns the sends that overloaded bookies have refused since the last call, each with the refused ids."""
        refused, self._refused = self._refused, []
        return refused

    def wanted(self, send: Send) -> bool:
        """Whether the bookie of a send still has to store the send's entries."""
        index = send.index
        is_current = send.generation == self._generations[index] and self.phase is not ENDED
        return is_current and index not in self._failed and index not in self._replacing

    def confirm_next(self) -> Append | None:
        """If the next group in order is complete, moves the LAC to the group's last entry and returns the group;
        otherwise returns None. A complete group waits while a bookie is too far behind it."""
        if self.phase is not OPEN or not self._pending or self._pending[0]._short:
            return None
        if self._lagging_bytes_max and self._is_too_far_ahead(self._pending[0]):
            return None
        append = self._pending.popleft()
        self.last_add_confirmed = append.last_entry_id
        self.length_confirmed = append.length
        return append

    def tick(self) -> bool:
        """Counts one tick. Returns True while some answer is awaited. The call may set `broken` or `must_change`."""
        self._tick += 1
        if self.phase is ENDED:
            return False
        oldest_allowed = self._tick - ANSWER_TICKS
        for index, window in enumerate(self._windows):
            if window and window[0].tick < oldest_allowed and index not in self._replacing:
                self._note_failure(index, BookieTimeout.code)
        return any(self._windows)

    def begin_change(self) -> None:
        assert self.must_change, (self.phase, self._failed)
        self.phase = CHANGING

    def take_failed(self) -> dict[int, str]:
        """Returns the bookies to replace now, by index. An empty answer means that the change is complete."""
        assert self.phase is CHANGING, self.phase
        assert not self._replacing, self._replacing
        self._replacing = frozenset(self._failed)
        self._failed = {}
        return {index: self.ensemble[index] for index in sorted(self._replacing)}

    def ensemble_changed(self, members: Sequence[str]) -> list[Send]:
        """Adopts `members`, the ensemble that the metadata names now. Returns the sends to repeat, group by group. A
        failed bookie that could not be replaced stays a member and gets all unconfirmed entries once more. If that
        bookie fails again and no member can be replaced, the writer ends instead of waiting for ever.
        """
        assert self.phase is CHANGING, self.phase
        assert len(members) == self._ensemble_size, (members, self.ensemble)
        replaced = [i for i, bookie in enumerate(members) if bookie != self.ensemble[i] or i in self._replacing]
        self.ensemble = tuple(members)
        self._replacing = frozenset()
        for index in replaced:
            self._generations[index] += 1
            self._windows[index].clear()
            self._failed.pop(index, None)
        sends: list[Send] = []
        for append in self._pending:
            for index in replaced:
                append.forget(index, self._ack_quorum)
                self._send(append, index, sends)
        return sends

    def resume(self) -> None:
        """Ends the ensemble change: from now on entries are confirmed again."""
        assert self.phase is CHANGING, self.phase
        assert not self._failed, self._failed
        assert not self._replacing, self._replacing
        self.phase = OPEN

    def end(self, error: LedgerError) -> list[Append]:
        """Takes no more entries. Returns the unconfirmed appends in order, with `error` set. LAC and length do not
        change any more."""
        self.phase = ENDED
        failed = list(self._pending)
        self._pending.clear()
        for append in failed:
            append.error = error
        for window in self._windows:
            window.clear()
        self._failed = {}
        self._replacing = frozenset()
        self._sink = _ignore  # Nothing is sent any more, and the writer is freed without a garbage collection.
        self.last_add_pushed = self.last_add_confirmed
        self.length = self.length_confirmed
        return failed

    def failures(self) -> Mapping[int, int]:
        """Returns the return codes of the failed members by index, for the log."""
        return self._failed

    def _send(self, append: Append, index: int, sends: list[Send]) -> None:
        """If the bookie at `index` holds any entries of the group, appends a `Send` of these to `sends`."""
        ids: Sequence[int] = append.ids
        entries = append.entries
        if self._ensemble_size != self._write_quorum:
            ids = held_ids(index, ids[0], len(ids), self._ensemble_size, self._write_quorum)
            if not ids:
                return
            entries = [entries[entry_id - append.first_entry_id] for entry_id in ids]
        send = Send(append, index, self._generations[index], ids, entries, self._tick, self._sink)
        self._windows[index].append(send)
        sends.append(send)

    def _note_failure(self, index: int, rc: int) -> None:
        self.had_fault = True
        if ends_writer(rc):
            if self.broken is None:
                self.broken = error_class(rc, reading=False)(f"bookie {self.ensemble[index]} answered {rc}")
        elif index not in self._replacing:
            self._failed.setdefault(index, rc)

    def _is_too_far_ahead(self, append: Append) -> bool:
        """Whether some bookie is further behind a group than `lagging_bytes_max`. With Qa < Qw a slow bookie delays no
        confirmation, but all entries that it has not answered stay in memory. So the writer keeps to the bookie's pace
        then, until the bookie has caught up or its deadline has passed."""
        limit = append.length - self._lagging_bytes_max
        return any(window and window[0].append.length < limit for window in self._windows)


def _ignore(send: Send, ids: Sequence[int], rc: int) -> None:
    pass
