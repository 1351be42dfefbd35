"""The JUnit test of docs/TESTING.md passes beside a server of `magnetar testing run`."""

import subprocess
from pathlib import Path

import pytest

from compat_tests.java.client_jars import CLIENT, JAVA
from compat_tests.maven_jars import class_path, need_java
from compat_tests.testing_page import beside_a_server, program_of_page

JUNIT = (("org.junit.platform", "junit-platform-console-standalone", "1.11.4"),)
SECONDS_MAX = 300

pytestmark = pytest.mark.slow


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    need_java()
    jars = f"{class_path('pulsar-java-client', CLIENT)}:{class_path('junit-console', JUNIT)}"
    (tmp_path / "OrdersTest.java").write_text(program_of_page("OrdersTest.java"))
    subprocess.run(["javac", "-cp", jars, "OrdersTest.java"], cwd=tmp_path, check=True, timeout=SECONDS_MAX)
    launcher = "org.junit.platform.console.ConsoleLauncher"
    command = beside_a_server([*JAVA, "-cp", f"{jars}:.", launcher, "execute", "--select-class", "OrdersTest"])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (done.returncode, "1 tests successful" in done.stdout) == (0, True), done.stdout + done.stderr
