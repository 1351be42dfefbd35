"""The Spark pages of docs/ run as they stand; see `pages` for what a page may hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.harness import Server
from compat_tests.spark.s3_server import S3Server
from tests.spark.pages import BROKER_URL, S3_URL, WEB_URL, Reader, blocks_of, server_settings, working_in
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


@pytest.fixture
def urls(page: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Gives the URL of an S3 service in place of the one on the page, if the page has one. Processes, and executors,
    find it by their environment."""
    if S3_URL not in page.read_text(encoding="utf-8"):
        yield {}
        return
    with S3Server() as s3:
        found = {name: value for name, value in s3.environment.items() if name.startswith("AWS_")}
        for name, value in found.items():
            monkeypatch.setenv(name, value)
            monkeypatch.setitem(session.sparkContext.environment, name, value)
        yield {S3_URL: s3.endpoint}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_can_be_followed_from_an_empty_folder(
    page: Path, session: SparkSession, urls: dict[str, str], tmp_path: Path
) -> None:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    work = tmp_path / "work"
    work.mkdir()
    with Server(tmp_path / "server", settings=server_settings(blocks)) as server, working_in(work, session):
        Reader({BROKER_URL: server.broker_url, WEB_URL: server.web_url, **urls}).follow(blocks)
        server.assert_no_errors()
