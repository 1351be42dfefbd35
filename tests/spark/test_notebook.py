"""The notebook of docs/ runs as it stands, cell after cell, from an empty folder to a plot."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.harness import Server
from tests.spark.pages import BROKER_URL, Block, Reader, blocks_of, server_settings, working_in
from tests.spark.support import make_session

pytestmark = [pytest.mark.process, pytest.mark.slow]

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "spark" / "weather.ipynb"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    yield from make_session()


def cells_of(notebook: Path) -> list[Block]:
    """Returns the blocks of the notebook's text, and its cells of code as blocks, all in their order."""
    blocks: list[Block] = []
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"], start=1):
        text = "".join(cell["source"])
        blocks += [Block("python", text, number)] if cell["cell_type"] == "code" else blocks_of(text)
    return blocks


def test_the_notebook_goes_from_an_empty_folder_to_a_plot(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    blocks = cells_of(NOTEBOOK)
    work = tmp_path / "work"
    work.mkdir()
    with Server(tmp_path / "server", settings=server_settings(blocks)) as server, working_in(work, session):
        reader = Reader({BROKER_URL: server.broker_url})
        reader.follow(blocks)
        server.assert_no_errors()
    lines = reader.names["axes"].get_lines()
    assert [line.get_label() for line in lines] == ["station-0", "station-1", "station-2"]
    for line in lines:
        months, degrees = line.get_data()
        assert list(months) == list(range(1, 13))
        assert degrees[6] > degrees[0] + 15  # July and January
    assert (work / "weather.png").read_bytes().startswith(b"\x89PNG")


def test_the_notebook_is_kept_without_outputs() -> None:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
