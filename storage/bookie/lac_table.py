"""Keeps the last add confirmed (LAC) of each ledger, as far as the bookie knows, and the watches that wait for a higher
LAC. No I/O, no clock.

Every entry and every explicit LAC carries a LAC. If a ledger is not in the table, the bookie takes the LAC from the
ledger's last entry, like TransientLedgerInfo of BookKeeper 4.17. The table serves readers that follow an open ledger.
The table may forget ledgers: a value that is too low only makes such a reader wait.

Every group of adds touches the table. Therefore the table is an OrderedDict, which takes a third of the time of
cachetools' LRUCache.
"""

from collections import OrderedDict
from collections.abc import Callable

LEDGERS_MAX = 100_000
"""The table remembers the LAC of this many ledgers. Beyond this number it forgets the ledger whose last write is the
oldest."""
WATCHES_MAX = 10_000
"""How many long polls may wait. A further long poll is answered at once, as if its time were over."""

Wake = Callable[["Watch"], None]


class Watch:
    """Waits for a LAC above `previous_lac`, for the ledger's fence or deletion, or for the end of the bookie."""

    __slots__ = ("ledger_id", "previous_lac", "wake")

    def __init__(self, ledger_id: int, previous_lac: int, wake: Wake) -> None:
        self.ledger_id = ledger_id
        self.previous_lac = previous_lac
        self.wake = wake


class LacTable:
    """The LACs of a bookie's ledgers, and the watches on them. One table serves all connections of the bookie's
    port."""

    def __init__(self, ledgers_max: int = LEDGERS_MAX, watches_max: int = WATCHES_MAX) -> None:
        self._ledgers_max = ledgers_max
        self._watches_max = watches_max
        self._lacs: OrderedDict[int, int] = OrderedDict()
        self._fenced: OrderedDict[int, None] = OrderedDict()
        self._watches: dict[int, list[Watch]] = {}
        self.watching = 0

    def known(self, ledger_id: int) -> int | None:
        """Returns the LAC of a ledger, or None when the LAC is unknown. The caller then reads the ledger's last entry,
        and passes its LAC to `raise_to`."""
        return self._lacs.get(ledger_id)

    def raise_to(self, ledger_id: int, lac: int) -> None:
        """Notes the LAC of an entry or of an explicit LAC, and wakes the watches that waited for it. A value below the
        known LAC changes nothing."""
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
        """Wakes all watches of a ledger that was fenced: its writer will send no LAC any more."""
        self._fenced[ledger_id] = None
        self._fenced.move_to_end(ledger_id)
        if len(self._fenced) > self._ledgers_max:
            self._fenced.popitem(last=False)
        self._wake_all(ledger_id)

    def deleted(self, ledger_id: int) -> None:
        """Forgets a deleted ledger and wakes its watches."""
        self._lacs.pop(ledger_id, None)
        self._fenced.pop(ledger_id, None)
        self._wake_all(ledger_id)

    def close(self) -> None:
        """Wakes all watches, because the bookie ends."""
        for ledger_id in list(self._watches):
            self._wake_all(ledger_id)

    def _wake_all(self, ledger_id: int) -> None:
        for watch in self._watches.pop(ledger_id, ()):
            self.watching -= 1
            watch.wake(watch)

    def watch(self, ledger_id: int, previous_lac: int, wake: Wake) -> Watch | None:
        """Calls `wake(watch)` once: when the LAC exceeds `previous_lac`, the ledger is fenced or deleted, or the bookie
        ends. Returns None when the caller must not wait: the LAC is higher already, the ledger is fenced, or
        WATCHES_MAX are waiting."""
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
        """Ends a watch whose time is over or whose peer is gone. It has no effect after the watch was woken."""
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
