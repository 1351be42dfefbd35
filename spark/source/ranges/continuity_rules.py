"""Finds out from the ids of the entries that a reader gets whether messages are missing.

Entry ids have no gaps inside a ledger and begin at 0 in each ledger, so a missing entry shows. A missing ledger does
not show, because ledger ids have gaps. So a reader that starts behind a known entry asks for that entry again: as long
as the entry's ledger exists, the entry comes, and all messages behind it follow.
"""

from collections.abc import Sequence

from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, Range


class DataLoss(Exception):
    """Messages that should be there are gone. The text says between which ids, and what can be done."""


ADVICE = (
    "The messages were deleted before they were read (retention, TTL, a skipped backlog, or a deleted topic). "
    "Option predefinedSubscription keeps what is unread; failOnDataLoss=false goes on without what is gone."
)


class Continuity:
    """Watches the entries of one range as they come, in order. `missing` has a sentence for each gap."""

    __slots__ = ("_last", "_name", "_protected", "_sparse", "_wanted", "missing")

    def __init__(self, name: str, wanted: Range, *, protected: bool, sparse: bool) -> None:
        """`protected` says that a subscription keeps unread messages, so that a ledger which is gone held no unread
        message. `sparse` says that gaps are to be expected, because the reader reads a compacted view."""
        self._name = name
        self._wanted = wanted
        self._protected = protected
        self._sparse = sparse
        self._last: Bound | None = None
        self.missing: list[str] = []

    @property
    def probe(self) -> Bound | None:
        """Returns the entry to ask for first, although that entry was read before. Returns None when there is no such
        entry, because the range begins with the topic or with a ledger."""
        after = self._wanted.after
        return Bound(after.ledger, after.entry) if after.ledger >= 0 and after.entry >= 0 else None

    def entry(self, ledger: int, entry: int) -> None:
        """The reader calls this for each entry that comes."""
        last = self._last
        self._last = Bound(ledger, entry)
        if self._sparse:
            return
        if last is None:
            self._first(ledger, entry)
        elif ledger == last.ledger and entry != last.entry + 1:
            self._report(f"after {last.ledger}:{last.entry} came {ledger}:{entry}")
        elif ledger != last.ledger and entry != 0:
            self._report(f"ledger {ledger} begins with entry {entry}")

    def run(self, ledgers: Sequence[int], entries: Sequence[int]) -> None:
        """The reader calls this for many entries at once, whose ids ascend. When the entries follow each other in one
        ledger without a gap, only the first one is checked."""
        count = len(ledgers)
        if not count:
            return
        self.entry(ledgers[0], entries[0])
        if ledgers[0] == ledgers[-1] and entries[-1] - entries[0] == count - 1:  # the ids ascend, so there is no gap
            self._last = Bound(ledgers[-1], entries[-1])
            return
        for ledger, entry in zip(ledgers[1:], entries[1:], strict=True):
            self.entry(ledger, entry)

    def _first(self, ledger: int, entry: int) -> None:
        after = self._wanted.after
        if after.is_before_all or (ledger, entry) == (after.ledger, after.entry):
            return
        if ledger == after.ledger:
            if entry != after.entry + 1 or self.probe is not None:
                self._report(f"after {after} came {ledger}:{entry}")
        elif not self._protected or entry != 0:
            self._report(f"ledger {after.ledger} is gone: after {after} came {ledger}:{entry}")

    def absent(self) -> None:
        """The reader calls this when the topic does not exist."""
        self._report(f"it does not exist any more, {self._wanted.upto} was to be read")

    def finished(self, reached: bool) -> None:
        """The reader calls this when it stops. `reached` says that the range's last entry, or an entry behind it, has
        come. A range up to a time may end at the beginning of a ledger, where there is no entry of its own."""
        upto = self._wanted.upto
        if self._sparse:
            return
        if not reached:
            seen = "nothing" if self._last is None else f"{self._last.ledger}:{self._last.entry}"
            self._report(f"{upto} never came, the last was {seen}")
        elif upto.entry >= 0 and self._last is not None and self._last[:2] > upto[:2]:
            self._report(f"{upto} is gone: {self._last.ledger}:{self._last.entry} came instead")

    def _report(self, what: str) -> None:
        self.missing.append(f"{self._name}: {what}.")

    def check(self) -> None:
        """Raises DataLoss if the reader missed messages. The error's text lists everything in `missing`."""
        if self.missing:
            raise DataLoss(f"{' '.join(self.missing)} {ADVICE}")


def takes(wanted: Range, ledger: int, entry: int, batch_index: int) -> bool:
    """Returns whether a range includes a message. `batch_index` is -1 for a message that is not in a batch."""
    index = batch_index if batch_index >= 0 else WHOLE_ENTRY
    return wanted.after < (ledger, entry, index) <= wanted.upto
