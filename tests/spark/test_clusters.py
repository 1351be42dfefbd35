"""docs/spark/CLUSTERS.md on a Spark standalone cluster of real processes, whose executors lack this project."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.python_env import python_with
from magnetar.spark.shipping.library_rules import LIBRARIES
from tests.spark.cluster_page import ClusterReader
from tests.spark.pages import BROKER_URL, blocks_of, server_settings
from tests.spark.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark" / "CLUSTERS.md").read_text(encoding="utf-8")
MASTER = "spark://127.0.0.1:7077"
CORES = (os.cpu_count() or 1) + 1
"""The cores of an executor: a number that the driver's machine does not have."""
OLDER_PYSPARK = "4.1.1"
FOR_CONNECT = ("googleapis-common-protos>=1.71", "grpcio>=1.76", "grpcio-status>=1.76", "zstandard>=0.25")
"""What `pyspark[connect]` adds."""


def section(title: str) -> str:
    """Returns the part of the page below a heading."""
    parts = re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)
    return parts[parts.index(title) + 1]


def requirements() -> dict[str, list[str]]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": found["dependencies"], **found["optional-dependencies"]}


def for_spark() -> list[str]:
    """Returns what Spark needs on executors for a data source in Python, but for Spark itself."""
    return [each for each in requirements()["spark"] if not each.startswith("pyspark")]


def bare() -> Path:
    """Returns an environment with the tests' Spark and nothing of this project."""
    return python_with("spark-executors", for_spark(), linked=("pyspark", "py4j"))


def older() -> Path:
    return python_with(f"pyspark-{OLDER_PYSPARK}", [f"pyspark=={OLDER_PYSPARK}", *for_spark()])


def connect_client() -> Path:
    """Returns an environment with a client of Spark Connect, and with what this project needs for Spark."""
    needed = [each for each in requirements()[""] if re.split("[<>=;]", each)[0] in LIBRARIES]
    return python_with("spark-connect", [*for_spark(), *FOR_CONNECT, *needed], linked=("pyspark", "py4j"))


def follow(titles: Sequence[str], cluster_python: Path, client: Path, folder: Path, project: str = "") -> None:
    """Follows sections of the page with a new server and a new cluster; see ClusterReader for the rest."""
    work = folder / "work"
    work.mkdir()
    settings = server_settings(blocks_of(section("spark-submit")))
    with (
        Server(folder / "server", settings=settings) as server,
        StandaloneCluster(folder, cluster_python, cores=CORES) as cluster,
        ExitStack() as servers,
    ):
        places = {BROKER_URL: server.broker_url, MASTER: cluster.url}
        reader = ClusterReader(work, client, cluster_python, places, servers, project)
        for title in titles:
            for block in blocks_of(section(title)):
                reader.follow(block)
        server.assert_no_errors()


def shuffle_tasks(checkpoint: Path) -> int:
    """Returns how many tasks a shuffle of the query had, as its first batch tells."""
    _, conditions, _ = (checkpoint / "offsets" / "0").read_text().splitlines()
    return int(json.loads(conditions)["conf"]["spark.sql.shuffle.partitions"])


def test_a_program_brings_itself_to_executors(tmp_path: Path) -> None:
    follow(["spark-submit"], bare(), Path(sys.executable), tmp_path)


@pytest.mark.long
def test_programs_and_jobs_bring_themselves_to_executors_and_use_all_of_their_cores(tmp_path: Path) -> None:
    follow(["spark-submit", "Jobs of an installation"], bare(), Path(sys.executable), tmp_path)
    for job in ("submitted", "table"):  # the second executor may have come late
        assert shuffle_tasks(tmp_path / "work" / f"{job}-checkpoint") in (CORES, 2 * CORES)


@pytest.mark.long
def test_a_bundle_is_submitted_to_spark_4_1(tmp_path: Path) -> None:
    follow(["spark-submit"], older(), Path(sys.executable), tmp_path)


@pytest.mark.long
def test_a_client_of_spark_connect_brings_the_source_to_the_server(tmp_path: Path) -> None:
    follow(["Spark Connect"], bare(), connect_client(), tmp_path, str(ROOT))
