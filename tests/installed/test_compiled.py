"""A wheel whose hot path was compiled (`hatch_build.py`) does what the sources do, and a machine without a compiler
gets a wheel all the same."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compat_tests.products import INTERPRETER_VARIABLE
from tests.house.tree import compiled_modules
from tests.installed.base_install import ROOT, BaseInstall, build_wheel, wheel_install

pytestmark = [pytest.mark.process, pytest.mark.slow]

LIBRARY = "magnetar__mypyc"
TESTS_OF_THE_MODULES = (
    "tests/pulsar_proto",
    "tests/storage/ledger",
    "tests/storage/managed",
    "tests/server/topics/publishing",
    "tests/server/topics/subscriptions",
    "tests/server/topics/transactions",
    "tests/server/transactions",
    "tests/storage/bookie",
    "tests/server/programs/test_connection_fuzz_real.py",
    "tests/server/programs/test_foreign_text.py",
)
CLIENT_TESTS = (
    "compat_tests/python/test_produce.py",
    "compat_tests/python/test_consume.py::test_shared_consumers_split_the_messages",
    "compat_tests/python/test_deduplication.py::test_what_the_client_itself_sends_again_is_stored_once[on]",
)
LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    print(importlib.import_module(name).__file__)
"""


@pytest.fixture(scope="module")
def compiled_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("compiled"), "1")


@pytest.fixture(scope="module")
def compiled(compiled_wheel: Path) -> BaseInstall:
    return wheel_install(Path(sys.executable), compiled_wheel, compiled_wheel.parent)


def pytest_of_the_tree(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    """Runs tests of the tree in a process of their own, and returns what pytest printed. `-P` and the import mode keep
    the tree from the beginning of the path, where it would hide the installation."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    done = subprocess.run(
        [*command, "--basetemp", str(folder / "tests"), *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_each_extension_lies_beside_its_source(compiled_wheel: Path) -> None:
    with zipfile.ZipFile(compiled_wheel) as archive:
        names = archive.namelist()
    extensions = {name.partition(".")[0] for name in names if name.endswith(".so")}
    assert extensions == {LIBRARY, *(module.removesuffix(".py") for module in compiled_modules())}
    assert set(compiled_modules()) <= set(names)


def test_the_compiled_modules_are_the_ones_that_are_imported(compiled: BaseInstall, tmp_path: Path) -> None:
    names = [module.removesuffix(".py").replace("/", ".") for module in compiled_modules()]
    command = [*compiled.program, "-c", LOADED, *names]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert [Path(line).suffix for line in done.stdout.splitlines()] == [".so"] * len(names)


def test_the_compiled_modules_pass_the_tests_of_their_sources(compiled_wheel: Path, compiled: BaseInstall) -> None:
    folder = compiled_wheel.parent
    environment = {"PYTHONPATH": f"{folder / 'site'}:{ROOT}"}
    printed = pytest_of_the_tree(environment, folder, "-m", "not process and not slow", *TESTS_OF_THE_MODULES)
    assert "skipped" not in printed


def test_the_official_client_publishes_and_consumes_with_them(compiled: BaseInstall, tmp_path: Path) -> None:
    printed = pytest_of_the_tree({INTERPRETER_VARIABLE: " ".join(compiled.program)}, tmp_path, *CLIENT_TESTS)
    assert "skipped" not in printed


def test_without_a_compiler_the_wheel_is_pure_python(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "", compiler="there-is-no-such-compiler")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    assert wheel.name.endswith("-py3-none-any.whl")
