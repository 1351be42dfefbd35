"""One group of entries on its way to an ensemble: which bookies have acknowledged it, and what is sent to each.

`append_rules.AppendMachine` makes the decisions; this module holds the values that the machine works on. No I/O.
"""

from collections.abc import Callable, Sequence

from magnetar.storage.ledger.ledger_errors import LedgerError


class Append:
    """One group of entries: the object that the caller of `append` gets back, with the record of which bookies
    acknowledged the group.

    `entries` are the packed entries as they are stored. `done(append)` is called once. At that time `error` is None
    when all entries are confirmed; otherwise none of them counts, although recovery may still find them.

    The acknowledgements are kept in one integer for the whole group, `_mask`: bit i says that the bookie at index i has
    stored all of it. One integer is enough as long as every bookie holds every entry (E = Qw) and answers for whole
    groups. That is the usual case, in which each answer costs one OR. A striped ledger, or an answer for a part of the
    group, needs one integer for each entry. From then on the group uses the list `_masks`. The list begins with one
    copy of `_mask` for each entry, because all earlier answers were for the whole group:

        Qa 2, group of 3     _mask     _masks
        index 0: all         0b001     -
        index 2: entry 0               [0b101, 0b001, 0b001]     _short 2: entries 1 and 2 have one answer
        index 1: all                   [0b111, 0b011, 0b011]     _short 0: complete

    `_short` counts the entries below the ack quorum, so that `complete` is a comparison with 0. As long as the group
    has no `_masks`, `_short` is either the number of all entries or 0.
    """

    __slots__ = (
        "_mask",
        "_masks",
        "_short",
        "done",
        "entries",
        "error",
        "first_entry_id",
        "ids",
        "last_entry_id",
        "length",
    )

    def __init__(
        self, first_entry_id: int, entries: Sequence[bytes], length: int, done: Callable[["Append"], None]
    ) -> None:
        count = len(entries)
        self.first_entry_id = first_entry_id
        self.entries = entries
        self.ids = range(first_entry_id, first_entry_id + count)
        self.last_entry_id = first_entry_id + count - 1
        self.length = length
        """Payload bytes of the ledger up to and including this group."""
        self.done = done
        self.error: LedgerError | None = None
        self._mask = 0
        self._masks: list[int] | None = None
        self._short = count
        """How many entries have fewer than Qa acknowledgements."""

    def acknowledge(self, index: int, ids: Sequence[int], ack_quorum: int) -> None:
        """Records that the bookie at `index` stored `ids`, which are all entries of this group or some of them."""
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
        """Drops the acknowledgements of the bookie at `index`: another bookie has replaced it, or it could not be
        replaced and gets the group once more."""
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
    """One group on its way to the bookie at one index. The channel calls this object with each answer of the bookie."""

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
        """How many entries are not answered yet."""
        self.refusals = 0
        """How often the bookie was overloaded and refused the group."""
        self.tick = tick
        self.sink = sink

    def entries_of(self, ids: Sequence[int]) -> Sequence[bytes]:
        """Returns the entries with these ids, which are some or all of the ids of this send."""
        if len(ids) == len(self.ids):
            return self.entries
        by_id = dict(zip(self.ids, self.entries, strict=True))
        return [by_id[entry_id] for entry_id in ids]

    def __call__(self, ids: Sequence[int], rc: int) -> None:
        self.sink(self, ids, rc)


AnswerSink = Callable[[Send, Sequence[int], int], None]
