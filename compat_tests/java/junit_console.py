"""Runs a JUnit test of docs/TESTING.md beside a server of `magnetar testing run`."""

import subprocess
from pathlib import Path

from compat_tests.java.client_jars import JAVA
from compat_tests.java.javac import compiled
from compat_tests.maven_jars import class_path
from compat_tests.testing_page import beside_a_server, program_of_page

JUNIT = (("org.junit.platform", "junit-platform-console-standalone", "1.11.4"),)
LAUNCHER = "org.junit.platform.console.ConsoleLauncher"
SECONDS_MAX = 300


def run_test_of_page(folder: Path, file: str, test: str, jars: str) -> None:
    """Compiles the page's program `file` in the folder and runs its test class. Raises AssertionError with the output
    unless exactly one test passes."""
    all_jars = f"{jars}:{class_path('junit-console', JUNIT)}"
    (folder / file).write_text(program_of_page(file))
    compiled(folder, all_jars, folder / file)
    command = beside_a_server([*JAVA, "-cp", f"{all_jars}:.", LAUNCHER, "execute", "--select-class", test])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (done.returncode, "1 tests successful" in done.stdout) == (0, True), done.stdout + done.stderr
