"""The Spring Boot test of docs/TESTING.md passes beside a server of `magnetar testing run`. `make clients` runs it."""

from pathlib import Path

import pytest

from compat_tests.java.junit_console import run_test_of_page
from compat_tests.maven_jars import class_path, need_java

SPRING = (
    ("org.springframework.boot", "spring-boot-starter-pulsar", "3.4.7"),
    ("org.springframework.boot", "spring-boot-starter-test", "3.4.7"),
)

pytestmark = pytest.mark.slow


def test_the_spring_boot_test_of_the_page_passes(tmp_path: Path) -> None:
    need_java()
    run_test_of_page(tmp_path, "ShopTest.java", "shop.ShopTest", class_path("spring-pulsar", SPRING))
