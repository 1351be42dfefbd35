"""Decides which bookies a ledger may be on, by the groups that its metadata or the client's configuration asks for.

A record at `/bookies` puts bookies into groups. A ledger with groups is placed on the bookies of its primary groups.
When these are too few for an ensemble, the bookies of the secondary groups are taken too, and after them the bookies of
no group. The ledger's own metadata names these groups, so that every program that replaces a bookie later keeps to
them, auto-recovery included. No I/O.

Source: IsolatedBookieEnsemblePlacementPolicy of Pulsar, EnsemblePlacementPolicyConfig.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from magnetar.storage.ledger.fragment_rules import Members
from magnetar.storage.ledger.placement_rules import Placement

POLICY_KEY = "EnsemblePlacementPolicyConfig"
"""The key in a ledger's custom metadata whose value names the ledger's groups."""
POLICY_CLASS = "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy"
PRIMARY = "isolationBookieGroups"
SECONDARY = "secondaryIsolationBookieGroups"
ANY_GROUP = "*"
"""A primary group of this name stands for all bookies."""

Groups = Mapping[str, Collection[str]]
"""Maps the name of a group to the ids of its bookies."""


class BookieGroups(NamedTuple):
    """The groups that a ledger asks for. Each field lists names, separated by commas. An empty field stands for no
    group at all, so that only bookies of no group are left."""

    primary: str
    secondary: str = ""

    def metadata(self) -> bytes:
        """Returns the value for a ledger's custom metadata, as Jackson's pretty printer writes it."""
        value = {"policyClass": POLICY_CLASS, "properties": {PRIMARY: self.primary, SECONDARY: self.secondary}}
        return json.dumps(value, indent=2, separators=(",", " : "), ensure_ascii=False).encode()


def groups_in_metadata(custom_metadata: Mapping[str, bytes]) -> BookieGroups | None:
    """Returns the groups that a ledger asks for. Returns None when the ledger asks for no groups or for another policy,
    or when its request cannot be read."""
    value = custom_metadata.get(POLICY_KEY)
    if value is None:
        return None
    try:
        config = json.loads(value)
        if config["policyClass"] != POLICY_CLASS:
            return None
        properties = config.get("properties") or {}
        return BookieGroups(str(properties.get(PRIMARY) or ""), str(properties.get(SECONDARY) or ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def eligible(writable: Sequence[str], wanted: BookieGroups, groups: Groups, ensemble_size: int) -> list[str]:
    """Returns the bookies on which a ledger of this ensemble size may be
    (getExcludedBookiesWithIsolationGroups)."""
    primary = _names(wanted.primary)
    if ANY_GROUP in primary or not groups:
        return list(writable)
    grouped = {bookie for bookies in groups.values() for bookie in bookies}
    allowed = {bookie for name in primary for bookie in groups.get(name, ())}
    found = sum(bookie in allowed for bookie in writable)
    if found < ensemble_size:
        secondary = {bookie for name in _names(wanted.secondary) for bookie in groups.get(name, ())}
        # Apache's client counts all bookies of the secondary groups here, whether or not they are alive.
        found += len(secondary)
        allowed |= secondary
    is_short = found < ensemble_size
    return [bookie for bookie in writable if bookie in allowed or (is_short and bookie not in grouped)]


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",")}


MakePlacement = Callable[[Callable[[], Sequence[str]]], Placement]
"""Makes a placement among the bookies that a function returns."""


class PlacementByGroups:
    """Returns the placement of each ledger, by its custom metadata."""

    def __init__(
        self,
        make: MakePlacement,
        writable: Callable[[], Sequence[str]],
        groups: Callable[[], Groups],
        default: BookieGroups | None = None,
    ) -> None:
        """`default` holds the groups for ledgers that do not ask for groups. With None such ledgers may be on all
        bookies."""
        self._make = make
        self._writable = writable
        self._groups = groups
        self._default = default
        self.anywhere = make(writable)
        """The placement without regard to groups."""

    def __call__(self, custom_metadata: Mapping[str, bytes]) -> Placement:
        wanted = groups_in_metadata(custom_metadata) or self._default
        return self.anywhere if wanted is None else _WithinGroups(self, wanted)

    def within(self, wanted: BookieGroups, ensemble_size: int) -> Placement:
        return self._make(lambda: eligible(self._writable(), wanted, self._groups(), ensemble_size))


class _WithinGroups:
    """The `Placement` of a ledger that asks for groups."""

    def __init__(self, placements: PlacementByGroups, wanted: BookieGroups) -> None:
        self._placements = placements
        self._wanted = wanted

    def choose(self, ensemble_size: int, write_quorum: int, avoid: Collection[str]) -> Members:
        placement = self._placements.within(self._wanted, ensemble_size)
        return placement.choose(ensemble_size, write_quorum, avoid)

    def replace(
        self, members: Members, failed: Mapping[int, str], write_quorum: int, avoid: Collection[str]
    ) -> Members:
        placement = self._placements.within(self._wanted, len(members))
        return placement.replace(members, failed, write_quorum, avoid)
