"""Python environments for tests, made from PyPI once for each user in a cache folder outside the project.

They are for programs that need other versions than the project's environment has. When one cannot be made, tests skip
with the reason, or fail when CI=true.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat_tests.unavailable import unavailable
from compat_tests.user_cache import locked_cache

INSTALL_SECONDS = 600
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


def python_with(name: str, requirements: Sequence[str], version: str | None = None, linked: Sequence[str] = ()) -> Path:
    """Returns the interpreter of an environment that has `requirements`. `version` is written like `3.11`; the default
    is the running one.

    `linked` names large packages that are linked from the running environment, without their own dependencies.
    """
    interpreter = interpreter_of(version or running_version())
    if interpreter is None:
        unavailable(f"needs python{version} for {name}")
    digest = hashlib.sha256("\n".join([interpreter, *requirements, "linked:", *linked]).encode()).hexdigest()[:12]
    with locked_cache(name) as cache:
        folder = cache / f"{name}-{digest}"
        if not (folder / "complete").exists():
            _install(folder, name, interpreter, requirements)
            for package in linked:
                _link(folder, package)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def interpreter_of(version: str) -> str | None:
    """Returns an interpreter of this version from the PATH, or one that pyenv made; pyenv's own command on the PATH
    works only for versions that are switched on."""
    if version == running_version():
        return sys.executable
    found = [shutil.which(f"python{version}"), *sorted(map(str, PYENV.glob(f"versions/{version}.*/bin/python")))]
    for each in filter(None, found):
        if subprocess.run([each, "-c", ""], capture_output=True).returncode == 0:
            return each
    return None


def running_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _install(folder: Path, name: str, interpreter: str, requirements: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    install: list[str | Path] = [
        folder / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    commands: tuple[list[str | Path], ...] = ([interpreter, "-m", "venv", folder], [*install, *requirements])
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            unavailable(f"the packages of {name} did not come within {INSTALL_SECONDS} s")
        if done.returncode != 0:
            unavailable(f"the packages of {name} cannot be installed: {done.stderr[-500:]}")


def _link(folder: Path, package: str) -> None:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"the running environment has no package {package}")
    (site,) = folder.glob("lib/python*/site-packages")
    (site / package).symlink_to(found.submodule_search_locations[0])
