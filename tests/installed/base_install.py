"""Makes environments that hold what the wheel requires and nothing else, for each Python version that the project
supports."""

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest

from compat_tests.python_env import interpreter_of, python_with, running_version

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LOWEST = "3.11 with the lowest versions"
ENVIRONMENTS = (*VERSIONS, LOWEST)
EXTRA = re.compile(r"\bextra\s*==")


def build_wheel(folder: Path, compiled: str = "0", *, compiler: str | None = None) -> Path:
    """Builds a wheel with this value of MAGNETAR_COMPILED, by default a wheel for every Python version, and with
    `compiler` as the program that compiles C."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    environment = {**os.environ, "MAGNETAR_COMPILED": compiled}
    if compiler is not None:
        environment["CC"] = compiler
    subprocess.run(command, check=True, capture_output=True, timeout=600, env=environment)
    (built,) = folder.glob("*.whl")
    return built


def requirements_of(wheel: Path, *, lowest: bool = False) -> list[str]:
    """Returns what pip installs for the wheel without extras. With `lowest`, each requirement is pinned to the lowest
    version that it allows."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        asked: list[str] = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    base = [each for each in asked if not EXTRA.search(each)]
    return [re.sub(r"(,?<[^;]*)?>=([\w.]+)(,?<[^;]*)?", r"==\2", each) for each in base] if lowest else base


@dataclass(frozen=True, slots=True)
class BaseInstall:
    """One installation. `program` is what comes before `-m magnetar`; `packages` are the import names of our packages
    there."""

    program: tuple[str, ...]
    packages: tuple[str, ...]


def tree_install(python: Path) -> BaseInstall:
    """Returns an installation as `make run` has it: the code of the tree with an installation's dependencies."""
    program = ("env", f"PYTHONPATH={ROOT}", str(python))
    return BaseInstall(program, ("magnetar", "pulsar_proto"))


def wheel_install(python: Path, wheel: Path, folder: Path) -> BaseInstall:
    """Returns an installation as `pip install .` makes it, with the code where pip puts it. `-P` keeps Python from
    importing the tree of the tests."""
    site = folder / "site"
    if not site.exists():
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
        subprocess.run(install, check=True, timeout=120)
    return BaseInstall(("env", f"PYTHONPATH={site}", str(python), "-P"), ("magnetar", "pulsar_proto"))


def base_python(name: str, wheel: Path) -> Path:
    """Returns the interpreter of one of ENVIRONMENTS. Skips the test, with the reason, when the machine has no such
    Python."""
    version = name.partition(" ")[0]
    if interpreter_of(version) is None:
        pytest.skip(f"NOT TESTED on Python {version}: this machine has no python{version}")
    lowest = name == LOWEST
    kind = "lowest" if lowest else "base"
    requirements = requirements_of(wheel, lowest=lowest)
    return python_with(f"{kind}-{version}", requirements, None if version == running_version() else version)
