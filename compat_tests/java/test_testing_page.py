"""The JUnit test of docs/TESTING.md passes beside a server of `magnetar testing run`."""

from pathlib import Path

import pytest

from compat_tests.java.client_jars import CLIENT
from compat_tests.java.junit_console import run_test_of_page
from compat_tests.maven_jars import class_path, need_java

pytestmark = pytest.mark.slow


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    need_java()
    run_test_of_page(tmp_path, "OrdersTest.java", "OrdersTest", class_path("pulsar-java-client", CLIENT))
