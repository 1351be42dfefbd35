"""Decides about each ledger whether anything refers to it, and says why it is an orphan or why it is not called one.

No ledger that may be in use is ever called an orphan. In doubt the verdict is one of those that keep the ledger: its
record may be too young to be referred to, its writer may live, a record that could refer to it could not be read, or it
may belong to another cluster on the same bookies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from magnetar.storage.leaks.ledger_facts_rules import Component, LedgerFacts
from magnetar.storage.leaks.reference_rules import COMPACTION_CURSOR, Reference
from pulsar_proto.names import topic_of_managed_ledger

TRANSACTIONS = "__transaction"
"""Part of the names of topics that belong to another topic, which alone has a bundle."""

CREATION_MS = 600_000
"""An open ledger that is younger than this is no orphan, even if the operator wants no grace period. A broker creates a
ledger before it writes the record that names the ledger, and in between it may wait for the metadata store."""


class Verdict(StrEnum):
    USED = "used"
    ORPHAN = "orphan"
    YOUNG = "young"
    OPEN = "open"
    UNREADABLE = "unreadable reference"
    FOREIGN = "other cluster?"
    UNKNOWN = "unknown"
    DAMAGED = "damaged record"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict about a ledger. `reason` is a short phrase that findings are counted by, `text` a sentence."""

    verdict: Verdict
    reason: str
    text: str

    @property
    def is_finding(self) -> bool:
        """Whether the operator has something to do about the ledger."""
        return self.verdict in (Verdict.ORPHAN, Verdict.DAMAGED)


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """A record that could not be read, so that nobody knows which ledgers it names.

    `owner` is the managed ledger or schema that the record belongs to, or the beginning of such names, as in
    "tenant/namespace". An empty text stands for all.
    """

    path: str
    owner: str
    why: str

    def covers(self, owner: str) -> bool:
        return not self.owner or owner == self.owner or owner.startswith(f"{self.owner}/")


@dataclass(frozen=True, slots=True)
class OwnedBundle:
    """A bundle that a broker owns now; `low` and `high` are the ends of its range of hashes, both included."""

    namespace: str
    low: int
    high: int


@dataclass(slots=True)
class Picture:
    """All that the metadata stores of all clusters say about ledgers, as the readers gathered it."""

    references: dict[int, list[Reference]] = field(default_factory=dict)
    cursors: dict[str, set[str]] = field(default_factory=dict)
    """The names of the cursors of each managed ledger that has a record."""
    schemas: set[str] = field(default_factory=set)
    blind: list[BlindSpot] = field(default_factory=list)
    tenants: set[str] = field(default_factory=set)
    owned: list[OwnedBundle] = field(default_factory=list)
    owners_known: bool = True
    """Whether the owners of bundles stand in the metadata store. With Apache's ExtensibleLoadManager they stand in a
    topic."""

    def add(self, references: Iterable[Reference]) -> None:
        for reference in references:
            known = self.references.setdefault(reference.ledger_id, [])
            if reference not in known:
                known.append(reference)

    def keeping(self, ledger_id: int) -> list[Reference]:
        """Returns the references that keep a ledger."""
        return [each for each in self.references.get(ledger_id, ()) if each.keeps]

    def dangling(self, listed: set[int]) -> list[Reference]:
        """Returns the references whose ledger is not among the listed ones, and has to be there. The caller looks
        whether the ledger was made after the listing."""
        return [
            reference
            for ledger_id in sorted(self.references.keys() - listed)
            for reference in self.references[ledger_id]
            if reference.is_dangling_if_gone
        ]


@dataclass(frozen=True, slots=True)
class Caution:
    """How careful the operator wants to be. `now_ms` is the time at which the ledgers were listed."""

    now_ms: int
    grace_ms: int
    all_clusters_given: bool = False
    """Whether the operator says that no other cluster keeps ledgers below this root."""

    @property
    def before_ms(self) -> int:
        """Records that were written after this time are left alone."""
        return self.now_ms - self.grace_ms

    def age_ms(self, then_ms: int) -> int:
        """Returns how long ago a stored time was."""
        return self.now_ms - then_ms


def judge(ledger: LedgerFacts, picture: Picture, caution: Caution) -> Judgement:
    """Returns the verdict about one ledger."""
    if keeping := picture.keeping(ledger.ledger_id):
        first = keeping[0]
        return Judgement(Verdict.USED, str(first.role), f"{first.role}: {first.path}")
    if ledger.fault:
        return Judgement(Verdict.DAMAGED, "record cannot be read", ledger.fault)
    if ledger.component is Component.UNKNOWN:
        labels = f"its record names {ledger.labels}" if ledger.labels else "its record has no custom metadata"
        return Judgement(Verdict.UNKNOWN, "not made by Pulsar", f"nothing refers to it, and {labels}")
    reason, text = _why(ledger, picture)
    for doubt in (_unreadable, _foreign, _young, _open, _in_creation):
        if (found := doubt(ledger, picture, caution, text)) is not None:
            return found
    return Judgement(Verdict.ORPHAN, reason, text)


def _unreadable(ledger: LedgerFacts, picture: Picture, caution: Caution, text: str) -> Judgement | None:
    for spot in picture.blind:
        if spot.covers(ledger.owner):
            return Judgement(Verdict.UNREADABLE, "a record cannot be read", f"{spot.path} cannot be read: {spot.why}")
    return None


def _foreign(ledger: LedgerFacts, picture: Picture, caution: Caution, text: str) -> Judgement | None:
    tenant = ledger.owner.split("/")[0]
    if caution.all_clusters_given or tenant in picture.tenants:
        return None
    where = f"no metadata store that was given knows the tenant {tenant}"
    return Judgement(Verdict.FOREIGN, "unknown tenant", f"{where}; another cluster may use the ledger. {text}")


def _young(ledger: LedgerFacts, picture: Picture, caution: Caution, text: str) -> Judgement | None:
    age_ms = caution.age_ms(ledger.created_ms)
    if age_ms >= caution.grace_ms:
        return None
    return Judgement(Verdict.YOUNG, "younger than the grace period", f"made {age_ms // 1000} s ago. {text}")


def _open(ledger: LedgerFacts, picture: Picture, caution: Caution, text: str) -> Judgement | None:
    if ledger.is_closed:
        return None
    if ledger.owner in picture.cursors or (ledger.component is Component.SCHEMA and ledger.owner in picture.schemas):
        where = "has a record"
    elif has_owner(ledger, picture):
        where = "may be loaded by a broker"
    else:
        return None
    return Judgement(Verdict.OPEN, "not closed", f"not closed, and {ledger.topic} {where}. {text}")


def _in_creation(ledger: LedgerFacts, picture: Picture, caution: Caution, text: str) -> Judgement | None:
    age_ms = caution.age_ms(ledger.created_ms)
    if ledger.is_closed or age_ms >= CREATION_MS:
        return None
    return Judgement(Verdict.YOUNG, "in creation", f"made {age_ms // 1000} s ago and not closed. {text}")


def has_owner(ledger: LedgerFacts, picture: Picture) -> bool:
    """Returns whether a broker may have the topic of this ledger loaded, because it owns the topic's bundle. Where the
    topic's bundle is not certain, any bundle of the namespace counts."""
    if not picture.owners_known:
        return True
    bundles = [each for each in picture.owned if each.namespace == ledger.namespace]
    if ledger.component is Component.SCHEMA or TRANSACTIONS in ledger.owner:
        return bool(bundles)
    place = crc32(topic_of_managed_ledger(ledger.owner).encode())
    return any(each.low <= place <= each.high for each in bundles)


def _why(ledger: LedgerFacts, picture: Picture) -> tuple[str, str]:
    """Returns why nothing refers to a ledger of Pulsar: a phrase and a sentence."""
    owner, topic = ledger.owner, ledger.topic
    if any(not each.keeps for each in picture.references.get(ledger.ledger_id, ())):
        return "offloaded and deleted", f"{topic} says that the ledger was deleted after it was offloaded"
    if ledger.component is Component.SCHEMA:
        if owner in picture.schemas:
            return "version not in the schema", f"the schema of {topic} does not name this version"
        return "schema deleted", f"there is no schema of {topic}"
    cursors = picture.cursors.get(owner)
    if cursors is None:
        return "topic deleted", f"there is no topic {topic}"
    if ledger.component is Component.TOPIC:
        return "not in the topic's list", f"the list of {topic} does not name it: trimmed, or never put there"
    if ledger.component is Component.COMPACTED:
        if COMPACTION_CURSOR not in cursors:
            return "compaction deleted", f"{topic} is not compacted any more"
        return "superseded compaction", f"{topic} has another compacted ledger, or this compaction did not end"
    if ledger.cursor not in cursors:
        return "subscription deleted", f"{topic} has no subscription {ledger.cursor}"
    if ledger.component is Component.BUCKET:
        return "delivered bucket", f"the subscription {ledger.cursor} of {topic} does not name this bucket any more"
    return "superseded cursor ledger", f"the subscription {ledger.cursor} of {topic} has another ledger, or none"


def dangling_texts(references: Iterable[Reference]) -> Mapping[int, list[str]]:
    """Returns, for each missing ledger, the sentences about the references to it."""
    texts: dict[int, list[str]] = {}
    for reference in references:
        texts.setdefault(reference.ledger_id, []).append(f"{reference.path} names it: {reference.role}")
    return texts
