"""Spark's own archives and this project's are dropped from the importers' cache, and what is imported is hidden from
the collector; nothing else is."""

import gc
import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.spark.source import worker_relief
from magnetar.spark.source.worker_relief import relieve_worker

ARCHIVES = {
    "pyspark.zip": True,
    "py4j-0.10.9.9-src.zip": True,
    "spark-core_2.13-4.1.1.jar": True,
    "magnetar.zip": True,
    "users.zip": False,
    "not_pyspark.zip": False,
}
"""The names of archives, and whether each is one of Spark's or the one that this project is imported from."""


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Puts archives on Python's path, and looks in each for a module and a package."""
    monkeypatch.setattr(worker_relief, "archive_of_this", lambda: tmp_path / "magnetar.zip")
    for number, name in enumerate(ARCHIVES):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(f"relief_module_{number}.py", f"origin = {name!r}")
            archive.writestr(f"relief_package_{number}/__init__.py", "")
            archive.writestr(f"relief_package_{number}/inner.py", f"origin = {name!r}")
        monkeypatch.syspath_prepend(str(tmp_path / name))
    for number in range(len(ARCHIVES)):
        importlib.import_module(f"relief_package_{number}.inner")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("relief_")]:
        del sys.modules[name]
    for path in [path for path in sys.path_importer_cache if path.startswith(str(tmp_path))]:
        del sys.path_importer_cache[path]


@pytest.fixture(autouse=True)
def _as_in_a_new_worker() -> None:
    worker_relief._freeze_once.cache_clear()


def cached(folder: Path) -> set[str]:
    """Returns the archives of which an importer is cached."""
    found = (Path(path).relative_to(folder) for path in sys.path_importer_cache if path.startswith(str(folder)))
    return {path.parts[0] for path in found}


def test_importers_of_sparks_archives_and_the_bundle_are_forgotten_and_no_others(archives: Path) -> None:
    assert cached(archives) == set(ARCHIVES)
    relieve_worker()
    assert cached(archives) == {name for name, is_known in ARCHIVES.items() if not is_known}


def test_what_was_not_imported_yet_can_still_be(archives: Path) -> None:
    relieve_worker()
    for number, name in enumerate(ARCHIVES):
        module = importlib.import_module(f"relief_module_{number}")
        assert module.origin == name


def test_what_tasks_leave_in_cycles_is_still_collected(archives: Path) -> None:
    relieve_worker()
    frozen = gc.get_freeze_count()
    assert frozen > 0

    class Node:
        def __init__(self) -> None:
            self.itself = self

    for _ in range(3):
        Node()
        relieve_worker()
    assert gc.get_freeze_count() <= frozen
    assert gc.collect() >= 3
