"""Ensembles over racks: neighbours in an ensemble hold the same entries, so they stand in different racks if possible.

A rack is a path such as `/rack-3` or `/region-1/rack-3`. A bookie in a different region is better than a bookie in a
different rack of the same region.
Pulsar keeps the racks in the record `/bookies`; a bookie that is not in it stands in the default rack. No I/O.

Source: RackawareEnsemblePlacementPolicyImpl of BookKeeper 4.17, BookieRackAffinityMapping of Pulsar.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random

from magnetar.storage.ledger.fragment_rules import Members
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies

DEFAULT_RACK = "/default-rack"

RackOf = Callable[[str], str]
"""Maps a bookie id to its rack."""


def racks_in_record(value: bytes) -> dict[str, str]:
    """Returns bookie id -> rack from the record `/bookies`, which is JSON: {group: {bookie: {"rack": ..., "hostname":
    ...}}}.

    Raises ValueError when the value has another shape.
    """
    try:
        groups = json.loads(value or b"{}")
        return {
            bookie: "/" + str(info["rack"]).strip("/")
            for bookies in groups.values()
            for bookie, info in bookies.items()
            if info.get("rack")
        }
    except (AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"not a record of racks: {error}") from error


def groups_in_record(value: bytes) -> dict[str, frozenset[str]]:
    """Returns group -> bookie ids from the record `/bookies`. Raises ValueError when the value has another shape."""
    try:
        return {str(group): frozenset(map(str, bookies)) for group, bookies in json.loads(value or b"{}").items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"not a record of groups: {error}") from error


class RackAwareBookies:
    """The `Placement` that knows racks. `min_racks` is minNumRacksPerWriteQuorum. With `enforce` an ensemble whose
    write quorums cannot span so many racks is refused with NotEnoughBookies; without `enforce` the best possible
    ensemble is made. The methods call each index of an ensemble a seat: a bookie sits there, or the seat is empty
    (None)."""

    def __init__(
        self,
        writable: Callable[[], Sequence[str]],
        rack_of: RackOf,
        rng: Random,
        *,
        min_racks: int = 2,
        enforce: bool = False,
        regions_first: bool = False,
    ) -> None:
        """With `regions_first` the neighbours in an ensemble stand in different regions if possible, and only then in
        different racks (RegionAwareEnsemblePlacementPolicy)."""
        self._writable = writable
        self._rack_of = rack_of
        self._rng = rng
        self._min_racks = min_racks
        self._enforce = enforce
        self._step = -1 if regions_first else 1

    def choose(self, ensemble_size: int, write_quorum: int, avoid: Collection[str]) -> Members:
        seats: list[str | None] = [None] * ensemble_size
        self._fill(seats, range(ensemble_size), write_quorum, avoid, excluded=set())
        if None in seats:
            found = sum(bookie is not None for bookie in seats)
            raise NotEnoughBookies(f"an ensemble of {ensemble_size} needs more than the {found} writable bookies")
        return self._checked(seats, write_quorum)

    def replace(
        self, members: Members, failed: Mapping[int, str], write_quorum: int, avoid: Collection[str]
    ) -> Members:
        wanted = [index for index, bookie in sorted(failed.items()) if members[index] == bookie]
        seats: list[str | None] = [None if index in wanted else bookie for index, bookie in enumerate(members)]
        self._fill(seats, wanted, write_quorum, avoid, excluded={*members, *failed.values()})
        if wanted and all(seats[index] is None for index in wanted):
            names = ", ".join(members[index] for index in wanted)
            raise NotEnoughBookies(f"no writable bookie is left to replace {names}")
        return self._checked([seat or members[index] for index, seat in enumerate(seats)], write_quorum)

    def _fill(
        self,
        seats: list[str | None],
        wanted: Sequence[int],
        write_quorum: int,
        avoid: Collection[str],
        excluded: set[str],
    ) -> None:
        """Gives each wanted seat the best remaining bookie, a random one among equals. When no bookie is left, a seat
        stays empty."""
        candidates = sorted(set(self._writable()) - excluded)
        self._rng.shuffle(candidates)
        for index in wanted:
            if not candidates:
                return
            near = [seats[i] for i in neighbours(index, len(seats), write_quorum)]
            racks = [self._rack_of(bookie) for bookie in near if bookie is not None]
            best = min(
                candidates, key=lambda bookie: (bookie in avoid, closeness(self._rack_of(bookie), racks)[:: self._step])
            )
            candidates.remove(best)
            seats[index] = best
        self._mend(seats, wanted, write_quorum, [bookie for bookie in candidates if bookie not in avoid])

    def _mend(self, seats: list[str | None], wanted: Sequence[int], write_quorum: int, spare: Collection[str]) -> None:
        """Improves the result of `_fill`, which takes the best bookie for each seat in turn, so that the last seats may
        get neighbours in one rack. Swaps two bookies, or replaces one by a spare bookie, as long as that helps."""
        missing = self._missing_racks(seats, write_quorum)
        if missing and len({self._rack_of(bookie) for bookie in (*seats, *spare) if bookie is not None}) < 2:
            return
        while missing:
            for changed in self._exchanges(seats, wanted, spare):
                if (fewer := self._missing_racks(changed, write_quorum)) < missing:
                    missing, seats[:] = fewer, changed
                    break
            else:
                return

    def _exchanges(
        self, seats: Sequence[str | None], wanted: Sequence[int], spare: Collection[str]
    ) -> Iterator[list[str | None]]:
        """Yields the seats after each single change that is tried: two wanted seats swapped, or one spare bookie of
        each rack put into a wanted seat."""
        for one, other in combinations(wanted, 2):
            changed = list(seats)
            changed[one], changed[other] = changed[other], changed[one]
            yield changed
        left = {self._rack_of(bookie): bookie for bookie in spare if bookie not in seats}
        for index, bookie in product(wanted, left.values()):
            yield [*seats[:index], bookie, *seats[index + 1 :]]

    def _missing_racks(self, seats: Sequence[str | None], write_quorum: int) -> int:
        """Returns how many racks the write quorums lack, summed over all of them."""
        least = min(self._min_racks, write_quorum)
        racks = [bookie and self._rack_of(bookie) for bookie in seats]
        return sum(max(0, least - len(window)) for window in quorums(racks, write_quorum))

    def _checked(self, seats: Sequence[str | None], write_quorum: int) -> Members:
        members = tuple(bookie for bookie in seats if bookie is not None)
        if self._enforce:
            least = min(self._min_racks, write_quorum)
            for window in quorums([self._rack_of(bookie) for bookie in members], write_quorum):
                if len(window) < least:
                    raise NotEnoughBookies(
                        f"{', '.join(members)}: a write quorum in {len(window)} racks, {least} are demanded"
                    )
        return members


def quorums(racks: Sequence[str | None], write_quorum: int) -> Iterator[set[str]]:
    """Yields the racks of each write quorum; a None among `racks` is an empty seat."""
    for start in range(len(racks)):
        window = (racks[(start + step) % len(racks)] for step in range(write_quorum))
        yield {rack for rack in window if rack is not None}


def neighbours(index: int, ensemble_size: int, write_quorum: int) -> set[int]:
    """Returns the indices that share a write set with `index`."""
    reach = range(1 - write_quorum, write_quorum)
    return {(index + step) % ensemble_size for step in reach} - {index}


def closeness(rack: str, others: Sequence[str]) -> tuple[int, int]:
    """Rates how badly a rack suits its neighbours; lower is better. Returns (neighbours in the same rack, neighbours in
    the same region)."""
    region = rack.rpartition("/")[0]
    same_region = sum(bool(region) and other.rpartition("/")[0] == region for other in others)
    return others.count(rack), same_region
