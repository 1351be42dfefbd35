"""Packages for tests from npm, installed once for each user into a cache folder outside the project."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.unavailable import unavailable
from compat_tests.user_cache import locked_cache


def node_modules(
    name: str, version: str, arguments: Sequence[str], seconds_max: float, files: Sequence[Path] = ()
) -> Path:
    """Returns the `node_modules` folder that `npm arguments…` makes in a folder with copies of `files`. `name` names
    the folder in the cache. Ends the test when the packages cannot be had within `seconds_max`."""
    if shutil.which("npm") is None:
        unavailable(f"needs npm to install {name}")
    with locked_cache(name) as cache:
        folder = cache / f"{name}-{version}"
        if not folder.exists():
            building = cache / f"{folder.name}.building"
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir()
            for each in files:
                shutil.copy(each, building)
            _install(name, arguments, building, seconds_max)
            building.rename(folder)
    return folder / "node_modules"


def _install(name: str, arguments: Sequence[str], building: Path, seconds_max: float) -> None:
    command = ["npm", *arguments, "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(command, cwd=building, capture_output=True, text=True, timeout=seconds_max)
    except subprocess.TimeoutExpired:
        unavailable(f"{name} did not come within {seconds_max:g} s")
    if done.returncode != 0:
        unavailable(f"{name} cannot be installed: {done.stderr[-500:]}")
