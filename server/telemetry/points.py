"""Tables of points: what an export holds, as plain values that another thread may read."""

from collections.abc import Iterator, Mapping, Sequence

from magnetar.server.telemetry.instruments import Instrument

Attributes = Mapping[str, str | int]

SETS_MAX = 1_000
"""How many objects of one kind, such as topics, an export tells apart; in Apache's broker these are 10,000
(OpenTelemetryService.MAX_CARDINALITY_LIMIT). The SDK needs some ten microseconds of the interpreter for each of thirty
points of a topic, and gives the points of an export back all at once, while the event loop waits. So the objects beyond
the limit are added up before the SDK sees them."""

TEXT_MAX = 500
"""How many characters of an attribute are exported. Clients choose the names of consumers and producers, which may have
megabytes, and every point of every export repeats them."""

OVERFLOW: Attributes = {"otel.metric.overflow": True}
"""The attribute of the point that stands for all objects beyond the limit, as the specification of the SDK names it."""


class PointTable:
    """The points of many objects of one kind. Each object is a row and has a value for each instrument."""

    def __init__(self, instruments: Sequence[Instrument], *, can_be_summed: bool = True) -> None:
        """Rows beyond SETS_MAX are added up, or left out if the sum means nothing."""
        self.instruments = instruments
        self._can_be_summed = can_be_summed
        self._rows: list[tuple[Attributes, Sequence[float]]] = []
        self._beyond: list[float] | None = None

    def add(self, attributes: Attributes, *values: float) -> None:
        """Adds a row with a value for each instrument."""
        assert len(values) == len(self.instruments)
        if len(self._rows) < SETS_MAX:
            short = {key: text[:TEXT_MAX] if isinstance(text, str) else text for key, text in attributes.items()}
            self._rows.append((short, values))
        elif self._can_be_summed:
            before = self._beyond or [0.0] * len(values)
            self._beyond = [one + other for one, other in zip(before, values, strict=True)]

    def points(self, index: int) -> Iterator[tuple[Attributes, float]]:
        """Yields the attributes and the value of each point of the instrument at `index`."""
        for attributes, values in self._rows:
            yield attributes, values[index]
        if self._beyond is not None:
            yield OVERFLOW, self._beyond[index]
