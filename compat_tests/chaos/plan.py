"""The faults of a round, drawn from its seed. There is no clock, process or network in here."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SESSION_SECONDS = 4.0
"""The sessions of brokers and bookies with ZooKeeper."""
FAULTS_MAX = 3


class Kind(StrEnum):
    PARTITION = "partition"
    ONE_WAY = "one-way partition"
    DELAY = "delay"
    LOSS = "loss"
    FREEZE = "freeze"
    KILL = "kill"
    CLOCK = "clock jump"
    SLOW_DISK = "slow disk"
    FAILED_SYNC = "failed sync"
    FULL_DISK = "full disk"


OF_LINKS = (Kind.PARTITION, Kind.ONE_WAY, Kind.DELAY, Kind.LOSS)
WITH_SHIM = (Kind.CLOCK, Kind.SLOW_DISK, Kind.FAILED_SYNC)
WEIGHTS = {
    Kind.PARTITION: 5,
    Kind.ONE_WAY: 3,
    Kind.DELAY: 2,
    Kind.LOSS: 2,
    Kind.FREEZE: 4,
    Kind.KILL: 4,
    Kind.CLOCK: 2,
    Kind.SLOW_DISK: 2,
    Kind.FAILED_SYNC: 1,
    Kind.FULL_DISK: 1,
}
AMOUNTS = {
    Kind.DELAY: (0.02, 0.1, 0.4, 1.2),
    Kind.LOSS: (0.02, 0.1, 0.3),
    Kind.CLOCK: (-3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0),
    Kind.SLOW_DISK: (0.05, 0.3, 1.0),
}
"""Seconds of delay, clock and sync; the share of packets that is lost."""
TAKE_AWAY = {Kind.PARTITION, Kind.ONE_WAY, Kind.FREEZE, Kind.KILL, Kind.FAILED_SYNC, Kind.FULL_DISK}
"""A bookie with one of these faults may take no writes for a while, or may not be found by a broker."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The nodes of a cluster: names, of which `tiny_disk` names the one whose disk may be filled. `spare_bookies` says
    how many bookies a ledger can do without: a broker that finds fewer than an ensemble rightly refuses producers."""

    zookeeper: str
    bookies: tuple[str, ...]
    brokers: tuple[str, ...]
    clients: str
    tiny_disk: str = ""
    has_shim: bool = True
    spare_bookies: int = 1

    @property
    def servers(self) -> tuple[str, ...]:
        return (self.zookeeper, *self.bookies, *self.brokers)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Times are seconds from the beginning of the faults; of a link, `target` is the node whose packets to
    `other` are concerned first. For a kill, `lasts` is how long the process stays away."""

    kind: Kind
    target: str
    other: str
    begins: float
    lasts: float
    amount: float

    @property
    def ends(self) -> float:
        return self.begins + self.lasts

    def __str__(self) -> str:
        link = ("→" if self.kind is Kind.ONE_WAY else "↔") + self.other if self.other else ""
        amount = f" of {self.amount:g}" if self.amount else ""
        return f"{self.kind} {self.target}{link}{amount} from {self.begins:.1f} s for {self.lasts:.1f} s"


def plan_of(seed: str, shape: Shape, seconds: float, kinds: Sequence[Kind] = tuple(Kind)) -> tuple[Fault, ...]:
    """Draws one to three faults of some kinds, which all end within `seconds`. No process has two of its own, because
    one that is killed cannot be frozen, and no plan takes away more bookies than are to spare."""
    choices = random.Random(seed)
    faults: list[Fault] = []
    for _ in range(choices.randint(1, FAULTS_MAX)):
        fault = _draw(choices, shape, seconds, kinds)
        if any(_collide(fault, each) for each in faults):
            continue
        if len(bookies_taken_away((*faults, fault), shape)) <= shape.spare_bookies:
            faults.append(fault)
    return tuple(sorted(faults, key=lambda each: each.begins))


def bookies_taken_away(faults: Sequence[Fault], shape: Shape) -> set[str]:
    """Returns the bookies that the faults take away. A link between two bookies takes away neither: they copy ledgers
    over it, but nobody writes over it."""
    nodes = [{fault.target, fault.other} & set(shape.bookies) for fault in faults if fault.kind in TAKE_AWAY]
    return {node for found in nodes if len(found) == 1 for node in found}


def _draw(choices: random.Random, shape: Shape, seconds: float, wanted: Sequence[Kind]) -> Fault:
    lacking = (() if shape.has_shim else WITH_SHIM) + (() if shape.tiny_disk else (Kind.FULL_DISK,))
    kinds = [kind for kind in wanted if kind not in lacking]
    kind = choices.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
    target, other = _where(choices, kind, shape)
    lasts = choices.uniform(0.3, 1.0) * seconds
    if kind is Kind.FREEZE:
        # Half of the processes wake up as what they were; the others find their session over.
        shorter, longer = (0.1 * SESSION_SECONDS, 0.7 * SESSION_SECONDS), (1.2 * SESSION_SECONDS, seconds)
        lasts = choices.uniform(*choices.choice((shorter, longer)))
    elif kind is Kind.KILL:
        lasts = choices.choice((0.0, choices.uniform(0, seconds)))
    lasts = min(lasts, seconds)
    begins = choices.uniform(0, seconds - lasts)
    amount = choices.choice(AMOUNTS[kind]) if kind in AMOUNTS else 0.0
    return Fault(kind, target, other, round(begins, 2), round(lasts, 2), amount)


def _where(choices: random.Random, kind: Kind, shape: Shape) -> tuple[str, str]:
    """Draws the node, and for a link the two nodes, of two roles or of one. Every pair of roles has
    the same odds."""
    roles = ((shape.zookeeper,), shape.bookies, shape.brokers, (shape.clients,))
    if kind in OF_LINKS:
        pairs = [(a, b) for a in roles for b in roles if (a is not b or len(a) > 1) and _talk(a, b, shape)]
        some, others = choices.choice(pairs)
        target = choices.choice(some)
        return target, choices.choice([each for each in others if each != target])
    if kind is Kind.FULL_DISK:
        return shape.tiny_disk, ""
    if kind in (Kind.SLOW_DISK, Kind.FAILED_SYNC):
        return choices.choice(choices.choice(((shape.zookeeper,), shape.bookies, shape.bookies))), ""
    return choices.choice(choices.choice(roles[:3])), ""


def _talk(some: Sequence[str], others: Sequence[str], shape: Shape) -> bool:
    """Returns whether nodes of the two roles have connections: clients have them to brokers only."""
    if shape.clients in (*some, *others):
        return shape.brokers in (some, others)
    return True


def _collide(one: Fault, two: Fault) -> bool:
    """Returns whether two faults cannot be had at once: two of one process, or the same rule on a link."""
    if (one.kind in OF_LINKS) != (two.kind in OF_LINKS):
        return False
    return {one.target, one.other} == {two.target, two.other} if one.kind in OF_LINKS else one.target == two.target
