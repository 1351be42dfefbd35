"""`pip install` puts only our own names on a user's machine, and the installed program starts."""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.installed.base_install import ROOT

PRODUCT_PACKAGES = {"magnetar", "pulsar_proto"}


@pytest.mark.process
def test_wheel_claims_only_our_own_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        names = set(archive.namelist())
    assert {top for top in tops if not top.endswith(".dist-info")} == PRODUCT_PACKAGES
    assert {
        "magnetar/server/commands/main.py",
        "magnetar/server/console/static/index.html",
        "magnetar/server/console/static/vendor/uPlot-LICENSE.txt",
        "magnetar/storage/bookie/bookie.py",
        "magnetar/metadata/store.py",
        "magnetar/spark/source/decoding/row_decoder.py",
        "magnetar/testing/pytest_plugin.py",
    } <= names


@pytest.mark.process
def test_a_wheel_that_is_made_from_the_source_distribution_has_the_same_files(wheel: Path, tmp_path: Path) -> None:
    """The builder meets each top-level folder twice, directly and by its link, and takes the one that it sees first. So
    the files of a wheel could depend on what it is built from."""
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    environment = {**os.environ, "MAGNETAR_COMPILED": "0"}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    (second,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as direct, zipfile.ZipFile(second) as by_source:
        assert set(by_source.namelist()) == set(direct.namelist())


@pytest.mark.process
def test_every_import_in_the_wheel_is_of_an_installed_name(wheel: Path) -> None:
    """This includes lines that nothing runs: after an import `from storage…` a user's own package `storage` would be
    found."""
    general = re.compile(
        r"^\s*(?:from|import) (?:server|storage|metadata|spark|tests|bench|compat_tests)\b", re.MULTILINE
    )
    with zipfile.ZipFile(wheel) as archive:
        wrong = [
            name
            for name in archive.namelist()
            if name.endswith(".py") and general.search(archive.read(name).decode("utf-8"))
        ]
    assert wrong == []


@pytest.mark.process
@pytest.mark.slow
def test_installed_server_starts_beside_a_users_own_server_package(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, timeout=300)
    (site,) = (environment / "lib").glob("python*/site-packages")
    for folder in (site / "server", tmp_path / "work" / "server"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise ImportError('the user\\'s own server package was imported')\n")

    for command in ([environment / "bin" / "magnetar"], [python, "-m", "magnetar"]):
        process = subprocess.Popen(
            [
                *command,
                "standalone",
                "--data-dir",
                tmp_path / "data",
                *["--broker-port", "0", "--web-port", "0", "--ready-json"],
            ],
            stdout=subprocess.PIPE,
            cwd=tmp_path / "work",
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready["pid"] == process.pid
        finally:
            process.terminate()
            assert process.wait(timeout=60) == 0
