"""Magnetar as users install it: a wheel whose hot path was compiled (`hatch_build.py`)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from compat_tests.products import Magnetar

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def compiled_magnetar() -> Iterator[Magnetar]:
    """Builds and unpacks a wheel, and yields the server that runs from it with the dependencies of this environment.
    Raises CalledProcessError when the wheel cannot be built, for example without a C compiler."""
    with TemporaryDirectory(prefix="bench-compiled-") as name:
        folder = Path(name)
        environment = {**os.environ, "MAGNETAR_COMPILED": "1"}
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
        subprocess.run(build, check=True, stdout=sys.stderr, env=environment)
        (wheel,) = folder.glob("*.whl")
        site = folder / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
        subprocess.run(pip, check=True, stdout=sys.stderr)
        yield Magnetar(("env", f"PYTHONPATH={site}", sys.executable, "-P"))
