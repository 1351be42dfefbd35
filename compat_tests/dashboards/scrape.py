"""Reads a page of metrics as Prometheus does."""

import gzip
import re
import urllib.request
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TIMEOUT_SECONDS = 60

SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


Scrape = Mapping[str, list[Sample]]
"""Name of a metric -> its samples."""


def parse(text: str) -> Scrape:
    """Returns all samples. Raises AssertionError for a line that is neither a sample nor a comment."""
    found: dict[str, list[Sample]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match is not None, line
        name, labels, value = match.groups()
        found.setdefault(name, []).append(Sample(dict(LABEL.findall(labels or "")), float(value)))
    return found


def scrape(url: str) -> Scrape:
    """Fetches and reads the page `/metrics` of a server."""
    request = urllib.request.Request(f"{url}/metrics", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        return parse(gzip.decompress(answer.read()).decode())


def has(page: Scrape, name: str, labels: Iterable[str]) -> bool:
    """Returns whether some sample of the metric has all these labels."""
    return any(set(labels) <= sample.labels.keys() for sample in page.get(name, ()))


def total(page: Scrape, name: str, **labels: str) -> float:
    """Returns the sum of the samples that have these labels."""
    return sum(sample.value for sample in page.get(name, ()) if labels.items() <= sample.labels.items())
