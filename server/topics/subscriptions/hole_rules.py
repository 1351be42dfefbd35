"""Finds the entries that have been in a hole for too long: unacknowledged, although a later entry is acknowledged.

An entry stays in a hole until it is acknowledged. So an entry that was in a hole `interval` ago and is in a hole now
has been in that hole for the whole time. It is therefore enough to look a few times per interval and to remember the
holes that each look found, as bitmaps.

Does no I/O. Apache's broker has no such rule; there, holes stay until a client asks for redelivery or leaves.
"""

from collections import deque
from collections.abc import Mapping

from pyroaring import BitMap

LOOKS = 4
"""How many times per interval `look` is called. A hole is therefore found at most a fourth of the interval too late."""

Holes = Mapping[int, BitMap]
"""Maps a ledger's id to the entries of that ledger that are in holes."""


class HoleWatch:
    """Remembers the holes of one subscription. Times are seconds of any clock that does not go back."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Holes]] = deque()

    def look(self, now: float, holes: Holes, interval: float) -> dict[int, BitMap]:
        """Notes the holes that exist now. Returns the entries that have been in holes for `interval`. The returned
        entries count as new from now on, so they are returned again if they are still in holes after another
        interval."""
        looks = self._looks
        while len(looks) > 1 and looks[1][0] <= now - interval:
            looks.popleft()
        old: dict[int, BitMap] = {}
        if looks and looks[0][0] <= now - interval:
            for ledger_id, before in looks[0][1].items():
                still = holes.get(ledger_id)
                both = None if still is None else before & still
                if both:
                    old[ledger_id] = both
        if old:
            self._looks = deque((time, _without(seen, old)) for time, seen in looks)
            holes = _without(holes, old)
        self._looks.append((now, holes))
        return old


def _without(holes: Holes, gone: Holes) -> Holes:
    return {ledger_id: bitmap - gone[ledger_id] if ledger_id in gone else bitmap for ledger_id, bitmap in holes.items()}
