"""Makes the JSON of Grafana's dashboards: rows of panels of one size, with the settings that all of them share."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]

PROJECT = "magnetar"
UID_LENGTH = 9
SCHEMA_VERSION = 40
COLUMNS = 24
PANELS_IN_A_ROW = 3
HEIGHT = 8
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    """A query of a panel, and the text that the legend shows for each of its series."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """A graph."""

    title: str
    unit: str
    """A unit by Grafana's name, such as `s`, `bytes`, `short` or `reqps`."""
    queries: Sequence[Query]
    description: str = ""


class Row(NamedTuple):
    title: str
    panels: Sequence[Panel]


class Variable(NamedTuple):
    """A variable of a dashboard: its name, and the query that lists its values."""

    name: str
    query: str


class Dashboard(NamedTuple):
    file: str
    """The name of the file, from which the uid is made."""
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]


def uid_of(file: str) -> str:
    """Returns an id that depends on the file's name only, so that links to the dashboard outlive its changes."""
    return hashlib.sha256(f"{PROJECT}/{file}".encode()).hexdigest()[:UID_LENGTH]


def dashboard_json(board: Dashboard) -> Json:
    """Returns the dashboard as Grafana imports it."""
    panels: list[Json] = []
    top = 0
    for row in board.rows:
        panels.append(_row_json(row.title, len(panels) + 1, top))
        top += 1
        for index, panel in enumerate(row.panels):
            column = index % PANELS_IN_A_ROW
            left = column * COLUMNS // PANELS_IN_A_ROW
            panels.append(_panel_json(panel, len(panels) + 1, left, top + index // PANELS_IN_A_ROW * HEIGHT))
        top += -(-len(row.panels) // PANELS_IN_A_ROW) * HEIGHT
    return {
        "uid": uid_of(board.file),
        "title": board.title,
        "description": board.description,
        "tags": ["pulsar"],
        "timezone": "utc",
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-15m", "to": "now"},
        "editable": True,
        "graphTooltip": 1,
        "templating": {"list": [_datasource_variable(), *map(_variable_json, board.variables)]},
        "panels": panels,
    }


def _row_json(title: str, number: int, top: int) -> Json:
    place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel_json(panel: Panel, number: int, left: int, top: int) -> Json:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"h": HEIGHT, "w": COLUMNS // PANELS_IN_A_ROW, "x": left, "y": top},
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query.expr, "legendFormat": query.legend, "datasource": DATASOURCE}
            for index, query in enumerate(panel.queries)
        ],
    }


def _datasource_variable() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}


def _variable_json(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }
