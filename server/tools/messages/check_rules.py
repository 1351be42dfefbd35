"""What a check found, what its thresholds make of it, and the exit codes of monitoring plugins. This module does no
I/O.

A measure is better when it is low (a backlog) or when it is high (consumers). `--warn backlog=1000` warns from 1000
on; `--warn consumers=2` warns below 2. Source of the codes: the Monitoring Plugins Development Guidelines, "Plugin
Return Codes".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from magnetar.server.tools.messages.quantity_rules import (
    duration_seconds,
    duration_text,
    number,
    size_bytes,
    size_text,
    whole,
)


class State(IntEnum):
    """The states with their exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


GRAVITY = (State.OK, State.UNKNOWN, State.WARNING, State.CRITICAL)
"""The states from the best to the worst."""


def worst(states: Sequence[State]) -> State:
    """Returns the worst of the states; OK when there are none."""
    return max(states, key=GRAVITY.index, default=State.OK)


class Unit(IntEnum):
    """What a measure counts."""

    COUNT = 0
    SECONDS = 1
    BYTES = 2
    PERCENT = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of measure that a check takes."""

    name: str
    unit: Unit
    help: str
    low_is_bad: bool = False
    default_critical: float | None = None
    default_warn: float | None = None

    def parse(self, text: str) -> float:
        """Returns a threshold. Raises ValueError with a sentence."""
        if self.unit is Unit.SECONDS:
            return duration_seconds(text)
        if self.unit is Unit.BYTES:
            return float(size_bytes(text))
        return number(text.removesuffix("%") if self.unit is Unit.PERCENT else text)

    def show(self, value: float) -> str:
        """Returns a value for people."""
        match self.unit:
            case Unit.SECONDS:
                return duration_text(value)
            case Unit.BYTES:
                return size_text(value)
            case Unit.PERCENT:
                return f"{value:.1f}%"
        return whole(int(value)) if value == int(value) else f"{value:,.1f}"

    def exceeds(self, value: float, threshold: float | None) -> bool:
        """Returns whether a value has reached the threshold. Of a measure that is better high, the value has to be
        below it."""
        if threshold is None:
            return False
        return value < threshold if self.low_is_bad else value >= threshold


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which values on a check warns, and from which it is critical; by the names of measures."""

    warn: Mapping[str, float] = field(default_factory=dict)
    critical: Mapping[str, float] = field(default_factory=dict)

    def of(self, kind: Kind) -> tuple[float | None, float | None]:
        """Returns the two thresholds of a measure."""
        return self.warn.get(kind.name, kind.default_warn), self.critical.get(kind.name, kind.default_critical)


def parse_thresholds(kinds: Sequence[Kind], warn: Sequence[str], critical: Sequence[str]) -> Thresholds:
    """Parses the values of --warn and --critical: `NAME=VALUE`, or only a value for the first kind. Raises ValueError
    with a sentence."""
    return Thresholds(_parsed(kinds, warn, "--warn"), _parsed(kinds, critical, "--critical"))


def _parsed(kinds: Sequence[Kind], texts: Sequence[str], option: str) -> dict[str, float]:
    known = {kind.name: kind for kind in kinds}
    found: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            name, value = kinds[0].name, text
        kind = known.get(name)
        if kind is None:
            raise ValueError(f"{option}: this check has no '{name}'; it has {', '.join(known)}")
        try:
            found[name] = kind.parse(value)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from None
    return found


@dataclass(frozen=True, slots=True)
class Measure:
    """One measured value, and what its thresholds make of it."""

    kind: Kind
    value: float
    warn: float | None
    critical: float | None

    @property
    def state(self) -> State:
        if self.kind.exceeds(self.value, self.critical):
            return State.CRITICAL
        return State.WARNING if self.kind.exceeds(self.value, self.warn) else State.OK

    @property
    def text(self) -> str:
        """Returns the value for people, with the threshold that it has reached."""
        shown = f"{self.kind.name} {self.kind.show(self.value)}"
        threshold = {State.CRITICAL: self.critical, State.WARNING: self.warn}.get(self.state)
        if threshold is None:
            return shown
        return f"{shown} ({'below' if self.kind.low_is_bad else 'limit'} {self.kind.show(threshold)})"


@dataclass(slots=True)
class Outcome:
    """What one check found. `text` says what is wrong apart from the measures, or what is fine."""

    check: str
    subject: str
    """What was checked: a topic, a service URL."""
    state: State = State.OK
    text: str = ""
    measures: list[Measure] = field(default_factory=list)

    def add(self, kind: Kind, value: float, thresholds: Thresholds) -> None:
        """Adds a measure; the state becomes the worse one."""
        measure = Measure(kind, value, *thresholds.of(kind))
        self.measures.append(measure)
        self.state = worst((self.state, measure.state))

    def fail(self, state: State, text: str) -> None:
        """Adds what is wrong; the state becomes the worse one."""
        self.text = f"{self.text}; {text}" if self.text else text
        self.state = worst((self.state, state))

    @property
    def sentence(self) -> str:
        """Returns the text and the measures in one line; the measures that are not OK come first."""
        measures = sorted(self.measures, key=lambda measure: -GRAVITY.index(measure.state))
        return ", ".join(filter(None, (self.text, *(measure.text for measure in measures)))) or "fine"
