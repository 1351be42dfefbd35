"""Collects the samples of the page of /metrics, and writes them in Prometheus's text format.

The format wants all samples of a name together, while they are gathered object by object. Few objects go into
`MetricFamilies`, which keeps the lines by name. Many objects of one kind, such as the topics, go into a `MetricTable`,
which keeps only numbers: a broker with 100,000 topics has ten million samples, whose lines never exist all at once.
"""

from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from magnetar.server.process.turns import Turns

ROWS_AT_ONCE = 256
"""How many rows of a table become text before other tasks may run."""


class Column(NamedTuple):
    """A metric that each row of a table has."""

    name: str
    kind: str = "gauge"


def gauges(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name) for name in names)


def counters(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "counter") for name in names)


def escaped(value: str) -> str:
    """Returns a label's value with the escapes that the text format requires."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def label_text(**labels: str) -> str:
    """Returns the text of a label set, without the braces."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())


class _Block(NamedTuple):
    """Some rows of a table."""

    labels: list[str]
    values: "array[float]"
    """The values of the first row, then those of the second one, and so on."""


class MetricTable:
    """The samples of many objects of one kind. Each object is a row and has a value for each column."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = {column.name: column for column in columns}
        assert len(self.columns) == len(columns), "a metric stands in the table twice"
        self._places = {column.name: place for place, column in enumerate(columns)}
        self._blocks: list[_Block] = []
        """The rows, ROWS_AT_ONCE in each block but the last one. One growing array would be copied now and then, which
        takes many milliseconds when a broker has 100,000 topics."""

    def add(self, labels: str, values: Iterable[float]) -> None:
        """Adds a row. `values` has a value for each column, in the order of the columns."""
        if not self._blocks or len(self._blocks[-1].labels) == ROWS_AT_ONCE:
            self._blocks.append(_Block([], array("d")))
        block = self._blocks[-1]
        block.labels.append(labels)
        block.values.extend(values)
        assert len(block.values) == len(block.labels) * len(self.columns), "a row has not one value for each column"

    def lines(self, name: str) -> Iterable[str]:
        """Yields the lines of one column, ROWS_AT_ONCE together."""
        for block in self._blocks:
            yield _lines(name, block.labels, block.values[self._places[name] :: len(self.columns)])


def _lines(name: str, labels: Sequence[str], values: "array[float]") -> str:
    """Returns the lines of one column for some rows. Most objects of a broker are idle, and have the same value in most
    columns: these lines are put together without looking at each row, which takes a twentieth of the time."""
    if values.tobytes() == values[:1].tobytes() * len(values):
        value = f"}} {values[0]}\n"
        return f"{name}{{" + f"{value}{name}{{".join(labels) + value
    return "".join([f"{name}{{{each}}} {value}\n" for each, value in zip(labels, values, strict=True)])


class MetricFamilies:
    """The samples of few objects. `common` are labels that every label set begins with."""

    def __init__(self, **common: str) -> None:
        self._common = common
        self._samples: dict[str, list[str]] = {}
        self.kinds: dict[str, str] = {}

    def labels(self, **values: str) -> str:
        """Returns the text of a label set, which can be used for many samples."""
        return label_text(**self._common, **values)

    def add(self, name: str, labels: str, value: float, kind: str = "gauge", *, of: str = "") -> None:
        """Adds a sample. `of` is the name of the metric for the samples of a summary or a histogram whose names have a
        suffix, as in `…_count`."""
        family = of or name
        self.kinds.setdefault(family, kind)
        self._samples.setdefault(family, []).append(f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n")

    def add_all(self, labels: str, samples: Iterable[tuple[str, float]], kind: str = "gauge") -> None:
        for name, value in samples:
            self.add(name, labels, value, kind)

    def lines(self, name: str) -> list[str]:
        return self._samples.get(name, [])


def text_of(families: MetricFamilies) -> str:
    """Returns a short page at once."""
    heads = ((name, f"# TYPE {name} {kind}\n") for name, kind in families.kinds.items())
    return "".join([head + "".join(families.lines(name)) for name, head in heads])


async def page_text(tables: Sequence[MetricTable], families: MetricFamilies) -> AsyncIterator[str]:
    """Yields the page piece by piece. Other tasks run in between."""
    turns = Turns()
    kinds = {name: column.kind for table in tables for name, column in table.columns.items()} | families.kinds
    for name, kind in kinds.items():
        head = f"# TYPE {name} {kind}\n"
        for table in tables:
            if name in table.columns:
                for rows in table.lines(name):
                    yield head + rows
                    head = ""
                    await turns.breathe()
        lines = families.lines(name)
        for at in range(0, len(lines), ROWS_AT_ONCE):
            yield head + "".join(lines[at : at + ROWS_AT_ONCE])
            head = ""
            await turns.breathe()
