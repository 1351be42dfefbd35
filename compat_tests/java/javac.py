"""Compiles the Java programs of tests that the `java` command cannot run from their sources alone."""

import shutil
import subprocess
from pathlib import Path

from compat_tests.unavailable import unavailable

COMPILE_SECONDS = 120


def compiled(folder: Path, jars: str, *sources: Path) -> Path:
    """Compiles sources against a class path, and returns the folder, which has the classes then."""
    if shutil.which("javac") is None:
        unavailable("needs a Java compiler")
    command = ["javac", "-nowarn", "-d", str(folder), "-cp", jars, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder
