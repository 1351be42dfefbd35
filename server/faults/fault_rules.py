"""When a fault strikes. A fault counts the events that it could strike, lets some of them pass, and strikes so often.

The same faults strike the same events in every run: chance comes from a generator with the fault's own seed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

FAULTS_MAX = 100
"""How many faults a server keeps at once."""
DELAY_MS_MAX = 600_000
"""The longest delay. What waits behind a delayed event is bounded as it is without one: a consumer's permits bound its
messages, and a producer sends no more than it may have unanswered."""


class Target(StrEnum):
    """The event that a fault strikes."""

    RECEIPT = "receipt"
    """SEND_RECEIPT, on its way to a producer."""
    ACK = "ack"
    """ACK, as it comes from a consumer. One command may acknowledge many messages."""
    MESSAGE = "message"
    """MESSAGE, on its way to a consumer: a message, or a batch of messages."""
    LOOKUP = "lookup"
    """LOOKUP and PARTITIONED_METADATA, as they come from a client."""
    LEDGER_WRITE = "ledger-write"
    """A write of entries to a bookie: those of topics, and those of cursors and schemas."""


class Effect(StrEnum):
    """What becomes of the event."""

    LOSE = "lose"
    DELAY = "delay"
    DOUBLE = "double"
    FAIL = "fail"


ANSWERS = frozenset({Effect.LOSE, Effect.DELAY, Effect.DOUBLE})
EFFECTS = {
    Target.RECEIPT: ANSWERS,
    Target.ACK: ANSWERS,
    Target.MESSAGE: ANSWERS,
    Target.LOOKUP: frozenset({Effect.FAIL}),
    Target.LEDGER_WRITE: frozenset({Effect.FAIL, Effect.DELAY}),
}
"""The effects that each target can have."""
LOOKUP_ERRORS = ("ServiceNotReady", "TooManyRequests")
"""The answers of a lookup that fails, by their names in Pulsar's ServerError."""


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """A fault as a test asks for it. Raises ValueError, whose text names what is wrong."""

    target: Target
    effect: Effect
    topic: str = ""
    """The full name of the topic whose events count; empty for all topics. A ledger write has no topic."""
    after: int = 0
    """How many events pass before the first that may be struck."""
    times: int = 1
    """How many events are struck."""
    chance: float = 1.0
    """The probability with which an event is struck."""
    seed: int = 0
    delay_ms: int = 1_000
    """How long an event waits. Later ones of the same producer or consumer wait behind it, as their order demands."""
    error: str = LOOKUP_ERRORS[0]

    def __post_init__(self) -> None:
        possible = EFFECTS[self.target]
        if self.effect not in possible:
            raise ValueError(f"the effect of a {self.target} is one of {', '.join(sorted(possible))}: {self.effect}")
        if self.topic and self.target is Target.LEDGER_WRITE:
            raise ValueError("a ledger-write has no topic")
        if self.after < 0 or self.times < 1:
            raise ValueError("after must be at least 0 and times at least 1")
        if not 0 < self.chance <= 1:
            raise ValueError(f"chance must be above 0 and at most 1: {self.chance}")
        if not 0 <= self.delay_ms <= DELAY_MS_MAX:
            raise ValueError(f"delayMs must be from 0 to {DELAY_MS_MAX}: {self.delay_ms}")
        if self.error not in LOOKUP_ERRORS:
            raise ValueError(f"error must be one of {', '.join(LOOKUP_ERRORS)}: {self.error}")


@dataclass(slots=True)
class Fault:
    """A fault with what it has seen so far."""

    spec: FaultSpec
    seen: int = 0
    struck: int = 0
    _chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = Random(self.spec.seed)

    def strikes(self) -> bool:
        """Counts one event of the fault's target and topic, and returns whether the fault strikes it."""
        self.seen += 1
        spec = self.spec
        if self.seen <= spec.after or self.struck >= spec.times:
            return False
        if spec.chance < 1 and self._chance.random() >= spec.chance:
            return False
        self.struck += 1
        return True


class FaultSet:
    """The faults that are set. A fault that has struck as often as it may stays, so that it can be asked how often."""

    def __init__(self) -> None:
        self.faults: dict[int, Fault] = {}
        self._next_id = 1
        self._targets: frozenset[Target] = frozenset()

    def add(self, spec: FaultSpec) -> int:
        """Sets a fault and returns its id. Raises ValueError when there are FAULTS_MAX already."""
        if len(self.faults) >= FAULTS_MAX:
            raise ValueError(f"there are {FAULTS_MAX} faults already: take some away")
        fault_id, self._next_id = self._next_id, self._next_id + 1
        self.faults[fault_id] = Fault(spec)
        self._find_targets()
        return fault_id

    def clear(self) -> None:
        self.faults.clear()
        self._find_targets()

    def _find_targets(self) -> None:
        self._targets = frozenset(each.spec.target for each in self.faults.values())

    def concern(self, targets: Iterable[Target]) -> bool:
        """Returns whether any fault has one of these targets: without one, nothing has to be looked at."""
        return not self._targets.isdisjoint(targets)

    def strike(self, target: Target, topic: str = "") -> FaultSpec | None:
        """Counts one event for the faults that it concerns, in the order in which they were set, up to the first one
        that strikes it. Returns that fault, or None."""
        for fault in self.faults.values():
            spec = fault.spec
            if spec.target is target and spec.topic in ("", topic) and fault.strikes():
                return spec
        return None
