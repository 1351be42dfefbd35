"""The state machine of a writer: groups of entries on their way to an ensemble. No I/O, clock or randomness.

Responsible for: which bookie gets which entries, which acknowledgements count, the order of confirmation, what an
ensemble change un-acknowledges and sends again, when a silent bookie has failed. Never does: sending, metadata, timers.
`writer.EnsembleWriter` is the shell around it.

How the shell drives it:

1. `push(append)` returns the `Send`s to hand to channels. A `Send` is itself the channel's `done` callback.
2. Each answer goes to `answered(send, ids, rc)`. True means: look at `broken`, then at `must_change`, then take what
   `confirm_next()` gives until None.
3. `broken` set: the writer is over; `end(error)` gives the appends to fail.
4. `must_change`: `begin_change()`, then until `take_failed()` is empty: write new metadata with the key
   `last_add_confirmed + 1`, `ensemble_changed(members)`, hand out the returned sends; then `resume()`.
   Nothing is confirmed meanwhile, so the key stays true; failures that come meanwhile make the loop go round again.
5. `tick()` at a steady pace while something is unanswered.
6. `take_refused()`: sends that an overloaded bookie did not take. Each is to be sent again after a while, if it is
   still `wanted`; it counts as unanswered meanwhile, so its deadline holds.

Invariants (bookkeeper.md 5 and 9):

- Entries are confirmed in order of id, each after Aq acknowledgements from bookies that are in the ensemble at that
  index now; an answer of a bookie replaced since counts for nothing (`generation`).
- All unconfirmed entries belong to the last ensemble, whose key is at most LAC + 1.
- A group is confirmed as a whole, so the LAC never stands inside one.

Acknowledgements are kept per group as one mask of ensemble indices while every bookie holds every entry (E = Wq) and
answers for whole groups. Striping, or an answer for a part, makes it one mask per entry.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from magnetar.storage.ledger.ledger_errors import BookieTimeout, LedgerError, ends_writer, error_class
from magnetar.storage.ledger.overload_rules import is_overload
from magnetar.storage.ledger.quorum_rules import check_sizes, held_ids

ANSWER_TICKS = 4
"""A send unanswered for so many whole ticks has timed out; the shell ticks that much faster than its deadline."""


class Phase(Enum):
    OPEN = "open"
    CHANGING = "changing"
    """An ensemble change is under way: entries are taken and sent, nothing is confirmed."""
    ENDED = "ended"


class Append:
    """One group of entries: what the caller gets back, and the record of who acknowledged it.

    `entries` are the packed entries as stored. `done(append)` is called once; `error` is None when all entries are
    confirmed, else none of them counts (recovery may still find them).
    """

    __slots__ = ("_mask", "_masks", "_short", "done", "entries", "error", "first_entry_id", "ids", "length")

    def __init__(
        self, first_entry_id: int, entries: Sequence[bytes], length: int, done: Callable[["Append"], None]
    ) -> None:
        count = len(entries)
        self.first_entry_id = first_entry_id
        self.entries = entries
        self.ids = range(first_entry_id, first_entry_id + count)
        self.length = length
        """Payload bytes of the ledger up to and including this group."""
        self.done = done
        self.error: LedgerError | None = None
        self._mask = 0
        self._masks: list[int] | None = None
        self._short = count
        """Entries below the ack quorum."""

    def acknowledge(self, index: int, ids: Sequence[int], ack_quorum: int) -> None:
        """The bookie at `index` stored `ids`, which are all of this group's or some."""
        bit = 1 << index
        masks = self._masks
        if masks is None:
            if len(ids) == len(self.ids):
                self._mask |= bit
                if self._mask.bit_count() >= ack_quorum:
                    self._short = 0
                return
            masks = self._masks = [self._mask] * len(self.ids)
        for entry_id in ids:
            offset = entry_id - self.first_entry_id
            assert offset >= 0, (entry_id, self.ids)
            before = masks[offset]
            assert not before & bit, f"the bookie at {index} answered twice for entry {entry_id}"
            masks[offset] = before | bit
            if before.bit_count() + 1 == ack_quorum:
                self._short -= 1

    def forget(self, index: int, ack_quorum: int) -> None:
        """The bookie at `index` left the ensemble: its acknowledgements no longer count."""
        keep = ~(1 << index)
        self._mask &= keep
        if self._masks is None:
            self._short = 0 if self._mask.bit_count() >= ack_quorum else len(self.ids)
            return
        self._masks = [mask & keep for mask in self._masks]
        self._short = sum(mask.bit_count() < ack_quorum for mask in self._masks)

    @property
    def complete(self) -> bool:
        return not self._short


class Send:
    """One group's way to the bookie at one index; called by the channel with the answer."""

    __slots__ = ("append", "entries", "generation", "ids", "index", "left", "refusals", "sink", "tick")

    def __init__(
        self,
        append: Append,
        index: int,
        generation: int,
        ids: Sequence[int],
        entries: Sequence[bytes],
        tick: int,
        sink: "AnswerSink",
    ) -> None:
        self.append = append
        self.index = index
        self.generation = generation
        self.ids = ids
        self.entries = entries
        self.left = len(ids)
        """Entries not answered yet."""
        self.refusals = 0
        """How often the bookie was overloaded and took nothing."""
        self.tick = tick
        self.sink = sink

    def entries_of(self, ids: Sequence[int]) -> Sequence[bytes]:
        """The entries of some of the ids."""
        if len(ids) == len(self.ids):
            return self.entries
        by_id = dict(zip(self.ids, self.entries, strict=True))
        return [by_id[entry_id] for entry_id in ids]

    def __call__(self, ids: Sequence[int], rc: int) -> None:
        self.sink(self, ids, rc)


AnswerSink = Callable[[Send, Sequence[int], int], None]


class AppendMachine:
    """See the module's text. `sink` is where each `Send` takes its answers; the machine never calls it."""

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
        self.phase = Phase.OPEN
        self.ensemble = tuple(ensemble)
        self.last_add_confirmed = last_add_confirmed
        self.last_add_pushed = last_add_confirmed
        self.length = length
        self.length_confirmed = length
        self.broken: LedgerError | None = None
        self._ensemble_size = size
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        # With Aq = Wq nothing is confirmed that a bookie still owes, so the pending appends bound the windows.
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
        """Some bookie failed, and no change is under way.

        A failure while nothing is pending waits for the next append: the entries that the bookie owes are confirmed
        (bookkeeper.md 5 "Failure after completion").
        """
        return bool(self._failed) and bool(self._pending) and self.phase is Phase.OPEN

    def push(self, append: Append) -> list[Send]:
        """Takes the next group; what to send, in order of index. The ids must follow `last_add_pushed`."""
        assert append.first_entry_id == self.last_add_pushed + 1, (append.first_entry_id, self.last_add_pushed)
        assert self.phase is not Phase.ENDED, "the writer has ended"
        if self._ensemble_size != self._write_quorum:
            append._masks = [0] * len(append.ids)
        self._pending.append(append)
        self.last_add_pushed = append.ids[-1]
        self.length = append.length
        if self._lagging_bytes_max:
            self._find_laggards()
        sends: list[Send] = []
        for index in range(self._ensemble_size):
            if index not in self._failed and index not in self._replacing:
                self._send(append, index, sends)
        return sends

    def answered(self, send: Send, ids: Sequence[int], rc: int) -> bool:
        """Takes one answer; True when the shell has something to do."""
        if rc and is_overload(rc):
            send.refusals += 1
            self._refused.append((send, ids))
            return True
        send.left -= len(ids)
        assert send.left >= 0, (send.ids, ids)
        index = send.index
        if send.generation != self._generations[index] or self.phase is Phase.ENDED:
            return False
        if not send.left:
            window = self._windows[index]
            while window and not window[0].left:
                window.popleft()
        if rc:
            self._note_failure(index, rc)
            return True
        send.append.acknowledge(index, ids, self._ack_quorum)
        return self.phase is Phase.OPEN and bool(self._pending) and not self._pending[0]._short

    def take_refused(self) -> list[tuple[Send, Sequence[int]]]:
        """What overloaded bookies did not take since the last call: the sends, and which of their ids."""
        refused, self._refused = self._refused, []
        return refused

    def wanted(self, send: Send) -> bool:
        """Whether the bookie that a send is for still is to store it."""
        index = send.index
        is_current = send.generation == self._generations[index] and self.phase is not Phase.ENDED
        return is_current and index not in self._failed and index not in self._replacing

    def confirm_next(self) -> Append | None:
        """The next group in order if it is complete: the LAC moves to its last entry."""
        if self.phase is not Phase.OPEN or not self._pending or self._pending[0]._short:
            return None
        append = self._pending.popleft()
        self.last_add_confirmed = append.ids[-1]
        self.length_confirmed = append.length
        return append

    def tick(self) -> bool:
        """One more tick passed; True while some answer is awaited. May set `broken` or `must_change`."""
        self._tick += 1
        if self.phase is Phase.ENDED:
            return False
        oldest_allowed = self._tick - ANSWER_TICKS
        for index, window in enumerate(self._windows):
            if window and window[0].tick < oldest_allowed and index not in self._replacing:
                self._note_failure(index, BookieTimeout.code)
        return any(self._windows)

    def begin_change(self) -> None:
        assert self.must_change, (self.phase, self._failed)
        self.phase = Phase.CHANGING

    def take_failed(self) -> dict[int, str]:
        """The bookies to replace now, by index; empty when the change is complete."""
        assert self.phase is Phase.CHANGING, self.phase
        assert not self._replacing, self._replacing
        self._replacing = frozenset(self._failed)
        self._failed = {}
        return {index: self.ensemble[index] for index in sorted(self._replacing)}

    def ensemble_changed(self, members: Sequence[str]) -> list[Send]:
        """The metadata now says `members`; what to send again, group by group.

        A failed bookie that could not be replaced stays a member and gets everything once more: when it fails again
        nothing can be replaced, and the writer ends instead of waiting for ever.
        """
        assert self.phase is Phase.CHANGING, self.phase
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
        """The change is complete: confirmation goes on."""
        assert self.phase is Phase.CHANGING, self.phase
        assert not self._failed, self._failed
        assert not self._replacing, self._replacing
        self.phase = Phase.OPEN

    def end(self, error: LedgerError) -> list[Append]:
        """No more entries: the unconfirmed appends in order, with `error` set. LAC and length are final."""
        self.phase = Phase.ENDED
        failed = list(self._pending)
        self._pending.clear()
        for append in failed:
            append.error = error
        for window in self._windows:
            window.clear()
        self._failed = {}
        self._replacing = frozenset()
        self.last_add_pushed = self.last_add_confirmed
        self.length = self.length_confirmed
        return failed

    def failures(self) -> Mapping[int, int]:
        """Return codes of the failed members by index, for the log."""
        return self._failed

    def _send(self, append: Append, index: int, sends: list[Send]) -> None:
        """Adds the send of what the bookie at `index` holds of the group, if anything."""
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
        if ends_writer(rc):
            if self.broken is None:
                self.broken = error_class(rc, reading=False)(f"bookie {self.ensemble[index]} answered {rc}")
        elif index not in self._replacing:
            self._failed.setdefault(index, rc)

    def _find_laggards(self) -> None:
        """With Aq < Wq a slow bookie holds back nothing, but what it was not sent or has not answered is kept."""
        for index, window in enumerate(self._windows):
            if window and self.length - window[0].append.length > self._lagging_bytes_max:
                self._note_failure(index, BookieTimeout.code)
