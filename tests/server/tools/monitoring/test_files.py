"""The dashboards and alert rules in docs/monitoring are what `magnetar dashboards` writes, and keep the conventions."""

import json
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.commands.main import main
from magnetar.server.tools.monitoring.monitoring_files import monitoring_files

FOLDER = Path(__file__).resolve().parents[4] / "docs" / "monitoring"

NEVER = ("id", "version", "iteration", "__inputs", "__requires", "pluginVersion", "$$hashKey")
"""Fields of a dashboard that change with every export."""


def boards() -> dict[str, Any]:
    return {name: json.loads(text) for name, text in monitoring_files().items() if name.endswith(".json")}


def test_the_files_are_those_that_the_command_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboards", str(tmp_path / "new" / "folder")]) == 0
    made = {path.name: path.read_text() for path in (tmp_path / "new" / "folder").iterdir()}
    kept = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert made == kept, "run: magnetar dashboards docs/monitoring"
    told = capsys.readouterr().out
    assert all(name in told for name in made)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["dashboards", str(tmp_path / "file" / "x")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_each_dashboard_has_an_id_that_stays_and_no_field_that_changes() -> None:
    assert {name: board["uid"] for name, board in boards().items()} == {
        "overview.json": "2de52eed9",
        "topics.json": "c6a2c07dc",
        "bookies.json": "29da43602",
    }
    for board in boards().values():
        assert not set(NEVER) & board.keys()
        assert board["timezone"] == "utc"


def test_the_data_source_is_one_variable_of_each_dashboard() -> None:
    for board in boards().values():
        kinds = [variable["type"] for variable in board["templating"]["list"]]
        assert kinds.count("datasource") == 1
        for panel in board["panels"]:
            if panel["type"] != "row":
                assert panel["datasource"]["uid"] == "${datasource}"


def test_every_panel_has_a_title_a_unit_and_queries_and_no_two_panels_overlap() -> None:
    for board in boards().values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            assert panel["title"]
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            taken |= cells
            if panel["type"] != "row":
                assert panel["fieldConfig"]["defaults"]["unit"]
                assert panel["targets"]


def test_rates_are_taken_over_the_interval_that_fits_the_scrapes() -> None:
    for board in boards().values():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                assert target["expr"].count("rate(") == target["expr"].count("[$__rate_interval]")
