"""The Spring Boot test of docs/TESTING.md passes beside a server of `magnetar testing run`, by itself and
as Maven runs it. `make clients` runs both."""

import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.java.junit_console import run_test_of_page
from compat_tests.maven_jars import class_path, need_java
from compat_tests.testing_page import beside_a_server, program_of_page
from compat_tests.unavailable import unavailable

SPRING = (
    ("org.springframework.boot", "spring-boot-starter-pulsar", "3.4.7"),
    ("org.springframework.boot", "spring-boot-starter-test", "3.4.7"),
)

SECONDS_MAX = 600
"""Maven fetches what it needs when it runs for the first time."""

pytestmark = pytest.mark.slow


def test_the_spring_boot_test_of_the_page_passes(tmp_path: Path) -> None:
    need_java()
    run_test_of_page(tmp_path, "ShopTest.java", "shop.ShopTest", class_path("spring-pulsar", SPRING))


PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId>
    <version>3.4.7</version>
  </parent>
  <groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-pulsar</artifactId>
    </dependency>
    <dependency>
      <groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-test</artifactId>
      <scope>test</scope>
    </dependency>
  </dependencies>
</project>
"""


def test_maven_runs_it_as_the_page_says(tmp_path: Path) -> None:
    need_java()
    if shutil.which("mvn") is None:
        unavailable("needs Apache Maven")
    tests = tmp_path / "src" / "test" / "java" / "shop"
    tests.mkdir(parents=True)
    (tmp_path / "pom.xml").write_text(PROJECT)
    (tests / "ShopTest.java").write_text(program_of_page("ShopTest.java"))
    command = beside_a_server(["mvn", "-B", "test"])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX)
    said = done.stdout + done.stderr
    assert (done.returncode, "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in said) == (0, True), said
