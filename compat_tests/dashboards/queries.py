"""Finds the metrics and labels in queries of PromQL, as far as our dashboards and alert rules use that language."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SELECTOR = re.compile(r"\b([a-z][A-Za-z]*_\w+)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
FUNCTIONS = ("histogram_quantile", "label_values")
OF_PROMETHEUS = {"instance", "job"}
"""The labels that Prometheus adds to what it scrapes."""


class Asked(NamedTuple):
    """A metric of a query, with the labels that the query uses."""

    where: str
    name: str
    labels: frozenset[str]


def asked_by(where: str, expr: str) -> Iterator[Asked]:
    """Yields the metrics of a query. Labels that it groups by count for each of them, if it is a query of one metric or
    groups all of them in the same way."""
    without_groups = GROUPING.sub("", expr)
    groups = {name.strip() for group in GROUPING.findall(expr) for name in group.split(",")}
    for name, matchers in SELECTOR.findall(without_groups):
        if name not in FUNCTIONS:
            labels = {*MATCHER.findall(matchers), *groups}
            yield Asked(where, name, frozenset(labels - OF_PROMETHEUS))


def of_dashboard(path: Path) -> Iterator[Asked]:
    """Yields what the panels and the variables of a dashboard ask for."""
    board = json.loads(path.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield from asked_by(f"{path.name}: {panel['title']}", target["expr"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert match is not None, variable
            for asked in asked_by(f"{path.name}: ${variable['name']}", match[1]):
                yield asked._replace(labels=asked.labels | {match[2]} - OF_PROMETHEUS)


def of_alerts(path: Path) -> Iterator[Asked]:
    """Yields what the rules ask for."""
    name = ""
    for line in path.read_text().splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(": ")
        if key == "alert":
            name = value
        elif key == "expr":
            yield from asked_by(name, json.loads(value))
