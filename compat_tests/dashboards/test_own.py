"""Our own dashboards and alert rules find all that they ask for in the pages of running servers."""

from pathlib import Path

import pytest

from compat_tests.dashboards.queries import Asked, asked_by, of_alerts, of_dashboard
from compat_tests.dashboards.scrape import Scrape, has

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "monitoring"

WITH_AUTHENTICATION = "pulsar_authentication_"
"""The beginning of names that only a server with authentication has."""


def missing(asked: list[Asked], broker: Scrape, bookie: Scrape) -> list[Asked]:
    return [
        each
        for each in asked
        if not each.name.startswith(WITH_AUTHENTICATION)
        and not has(broker, each.name, each.labels)
        and not has(bookie, each.name, each.labels)
    ]


@pytest.mark.parametrize("file", ["overview.json", "topics.json", "bookies.json"])
def test_every_query_of_a_dashboard_finds_its_metrics_and_labels(file: str, broker: Scrape, bookie: Scrape) -> None:
    asked = list(of_dashboard(FOLDER / file))
    assert len(asked) > 10
    assert missing(asked, broker, bookie) == []


def test_every_alert_rule_finds_its_metrics_and_labels(broker: Scrape, bookie: Scrape) -> None:
    asked = list(of_alerts(FOLDER / "alerts.yaml"))
    assert len(asked) > 10
    assert missing(asked, broker, bookie) == []


def test_queries_are_understood() -> None:
    expr = 'max by (a, instance) (rate(x_total{b=~"$b", c="x_y"}[5m])) / sum by (a, instance) (y_count)'
    found = {(each.name, each.labels) for each in asked_by("here", expr)}
    assert found == {("x_total", frozenset("abc")), ("y_count", frozenset("a"))}
