"""What a bookie knows of each ledger's last add confirmed (LAC), and who waits for it to move. No I/O, no clock.

The LAC comes with every entry and in explicit LACs; a ledger that is not in the table has it in its last entry
(TransientLedgerInfo of BookKeeper 4.17 does the same). It serves readers that tail an open ledger: too low a value only
makes them wait, so the table may forget.
"""

from collections import OrderedDict
from collections.abc import Callable

LEDGERS_MAX = 100_000
"""Ledgers whose LAC is remembered; beyond it the one that was longest not written is forgotten."""
WATCHES_MAX = 10_000
"""Long polls that wait at once; a further one is answered at once, as if its time were over."""

Wake = Callable[["Watch"], None]


class Watch:
    """One wait for a LAC above `previous_lac`, or for an end: the ledger's fence or deletion, the bookie's close."""

    __slots__ = ("ledger_id", "previous_lac", "wake")

    def __init__(self, ledger_id: int, previous_lac: int, wake: Wake) -> None:
        self.ledger_id = ledger_id
        self.previous_lac = previous_lac
        self.wake = wake


class LacTable:
    def __init__(self, ledgers_max: int = LEDGERS_MAX, watches_max: int = WATCHES_MAX) -> None:
        self._ledgers_max = ledgers_max
        self._watches_max = watches_max
        self._lacs: OrderedDict[int, int] = OrderedDict()
        self._fenced: OrderedDict[int, None] = OrderedDict()
        self._watches: dict[int, list[Watch]] = {}
        self.watching = 0

    def known(self, ledger_id: int) -> int | None:
        """None: see the last entry, and say with `raise_to` what it says."""
        return self._lacs.get(ledger_id)

    def raise_to(self, ledger_id: int, lac: int) -> None:
        """An entry or an explicit LAC says so; a lower value than the known one changes nothing."""
        lacs = self._lacs
        known = lacs.get(ledger_id)
        if known is None:
            lacs[ledger_id] = lac
            if len(lacs) > self._ledgers_max:
                lacs.popitem(last=False)
        else:
            lacs.move_to_end(ledger_id)
            if lac <= known:
                return
            lacs[ledger_id] = lac
        if ledger_id in self._watches:
            self._wake(ledger_id, lac)

    def fenced(self, ledger_id: int) -> None:
        """Its writer says no more: nobody needs to wait."""
        self._fenced[ledger_id] = None
        self._fenced.move_to_end(ledger_id)
        if len(self._fenced) > self._ledgers_max:
            self._fenced.popitem(last=False)
        self._wake_all(ledger_id)

    def deleted(self, ledger_id: int) -> None:
        """Nothing is known of it any more, and nobody needs to wait."""
        self._lacs.pop(ledger_id, None)
        self._fenced.pop(ledger_id, None)
        self._wake_all(ledger_id)

    def close(self) -> None:
        """The bookie ends: nobody needs to wait."""
        for ledger_id in list(self._watches):
            self._wake_all(ledger_id)

    def _wake_all(self, ledger_id: int) -> None:
        for watch in self._watches.pop(ledger_id, ()):
            self.watching -= 1
            watch.wake(watch)

    def watch(self, ledger_id: int, previous_lac: int, wake: Wake) -> Watch | None:
        """`wake(watch)` once, when the LAC exceeds `previous_lac` or the ledger is fenced; None: do not wait at all."""
        known = self._lacs.get(ledger_id)
        if (known is not None and known > previous_lac) or ledger_id in self._fenced:
            return None
        if self.watching >= self._watches_max:
            return None
        watch = Watch(ledger_id, previous_lac, wake)
        self._watches.setdefault(ledger_id, []).append(watch)
        self.watching += 1
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Its time is over, or its peer is gone. No effect after its wake."""
        watches = self._watches.get(watch.ledger_id, [])
        if watch in watches:
            watches.remove(watch)
            self.watching -= 1
            if not watches:
                del self._watches[watch.ledger_id]

    def _wake(self, ledger_id: int, lac: int) -> None:
        watches = self._watches.pop(ledger_id)
        waiting = [watch for watch in watches if watch.previous_lac >= lac]
        if waiting:
            self._watches[ledger_id] = waiting
        for watch in watches:
            if watch.previous_lac < lac:
                self.watching -= 1
                watch.wake(watch)
