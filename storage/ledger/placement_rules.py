"""Chooses the bookies of an ensemble, and the bookie that replaces a failed member. No I/O; randomness is an argument.

Apache's clients can read any choice, because they take the ensemble from the metadata. Another policy implements
`Placement`, as in `rack_placement_rules`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Protocol

from magnetar.storage.ledger.fragment_rules import Members
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies


class Placement(Protocol):
    """Chooses bookies for a ledger client. A placement takes bookies to `avoid` only when there are not enough other
    bookies."""

    def choose(self, ensemble_size: int, write_quorum: int, avoid: Collection[str]) -> Members:
        """Returns the members of a new ensemble. Raises NotEnoughBookies."""

    def replace(
        self, members: Members, failed: Mapping[int, str], write_quorum: int, avoid: Collection[str]
    ) -> Members:
        """Returns the members with as many failed ones replaced as possible; see `replace_failed`. Raises
        NotEnoughBookies."""


def choose_ensemble(
    writable: Sequence[str], ensemble_size: int, rng: Random, *, avoid: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns `ensemble_size` different bookies in random order, and takes bookies in `avoid` only when there are not
    enough others.

    Raises NotEnoughBookies.
    """
    chosen = _pick(writable, ensemble_size, rng, avoid)
    if len(chosen) < ensemble_size:
        raise NotEnoughBookies(f"an ensemble of {ensemble_size} needs more than the {len(chosen)} writable bookies")
    return tuple(chosen)


def replace_failed(
    ensemble: Sequence[str],
    failed: Mapping[int, str],
    writable: Sequence[str],
    rng: Random,
    *,
    avoid: Collection[str] = (),
) -> tuple[str, ...]:
    """Returns the ensemble with as many failed members replaced as there are spare bookies, at least one.

    `failed` maps index to bookie. An index at which the ensemble has another bookie by now is left as it is. A
    replacement is never a failed bookie nor a current member, as in BookieWatcherImpl.replaceBookie. Raises
    NotEnoughBookies when a member must be replaced and no spare bookie is left.
    """
    wanted = [index for index, bookie in sorted(failed.items()) if ensemble[index] == bookie]
    excluded = {*ensemble, *failed.values()}
    spare = _pick([bookie for bookie in writable if bookie not in excluded], len(wanted), rng, avoid)
    if wanted and not spare:
        names = ", ".join(ensemble[index] for index in wanted)
        raise NotEnoughBookies(f"no writable bookie is left to replace {names}")
    changed = list(ensemble)
    for index, bookie in zip(wanted, spare, strict=False):
        changed[index] = bookie
    return tuple(changed)


class AnyBookies:
    """The placement that knows nothing of racks: it takes any writable bookies."""

    def __init__(self, writable: Callable[[], Sequence[str]], rng: Random) -> None:
        self._writable = writable
        self._rng = rng

    def choose(self, ensemble_size: int, write_quorum: int, avoid: Collection[str]) -> Members:
        return choose_ensemble(self._writable(), ensemble_size, self._rng, avoid=avoid)

    def replace(
        self, members: Members, failed: Mapping[int, str], write_quorum: int, avoid: Collection[str]
    ) -> Members:
        return replace_failed(members, failed, self._writable(), self._rng, avoid=avoid)


ReplaceFailed = Callable[[Members, Mapping[int, str]], Members]
"""Maps (members, failed: index -> bookie) to the new members, like `replace_failed`. Raises NotEnoughBookies when no
failed member can be replaced."""


class SpareBookies:
    """The `ReplaceFailed` of one handle: a bookie that failed this handle before is chosen again only when no other is
    left."""

    __slots__ = ("_avoid", "_failed", "_placement", "_write_quorum")

    def __init__(
        self, placement: Placement, write_quorum: int, avoid: Callable[[], Collection[str]] = frozenset
    ) -> None:
        """`avoid()` returns the bookies that the client has quarantined for all handles."""
        self._placement = placement
        self._write_quorum = write_quorum
        self._avoid = avoid
        self._failed: set[str] = set()

    def __call__(self, members: Members, failed: Mapping[int, str]) -> Members:
        self._failed.update(failed.values())
        return self._placement.replace(members, failed, self._write_quorum, self._failed.union(self._avoid()))


def _pick(bookies: Sequence[str], count: int, rng: Random, avoid: Collection[str]) -> list[str]:
    """Returns up to `count` different bookies in random order, those in `avoid` last."""
    different = sorted(set(bookies))
    rng.shuffle(different)
    different.sort(key=lambda bookie: bookie in avoid)
    return different[:count]
