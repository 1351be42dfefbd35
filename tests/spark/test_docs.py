"""The Spark pages of docs/ run as they stand; see `pages` for what a page may hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.harness import Server
from tests.spark.pages import BROKER_URL, WEB_URL, Reader, blocks_of, server_settings, working_in
from tests.spark.support import make_session

pytestmark = [pytest.mark.process, pytest.mark.slow]

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = "CLUSTERS.md"
"""`test_clusters.py` follows this page, because it needs a cluster."""
JOBS = [
    pytest.param(page, marks=pytest.mark.long)
    for page in sorted((DOCS / "spark").glob("*.md"))
    if page.name != ELSEWHERE
]
PAGES = [DOCS / "SPARK.md", *JOBS]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    yield from make_session()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_can_be_followed_from_an_empty_folder(page: Path, session: SparkSession, tmp_path: Path) -> None:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    work = tmp_path / "work"
    work.mkdir()
    with Server(tmp_path / "server", settings=server_settings(blocks)) as server, working_in(work, session):
        Reader({BROKER_URL: server.broker_url, WEB_URL: server.web_url}).follow(blocks)
        server.assert_no_errors()
