"""Java software for tests from Maven Central, fetched once for each user into a cache folder outside the project."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.unavailable import unavailable
from compat_tests.user_cache import locked_cache

DOWNLOAD_SECONDS = 300

Dependency = tuple[str, str, str]
"""Group, artifact and version."""


def need_java() -> None:
    if shutil.which("java") is None:
        unavailable("needs Java")


def class_path(name: str, dependencies: Sequence[Dependency], without: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the class path of the first dependency with all that it needs at run time, but for the artifacts (group,
    artifact) that `without` lists. `name` names its folder in the cache."""
    version = dependencies[0][2]
    with locked_cache(name) as cache:
        folder = cache / f"{name}-{version}"
        if not folder.exists():
            _download(folder, name, dependencies, without)
    return f"{folder}/*"


def _download(folder: Path, name: str, dependencies: Sequence[Dependency], without: Sequence[tuple[str, str]]) -> None:
    if shutil.which("mvn") is None:
        unavailable(f"needs Apache Maven to fetch the jars of {name}")
    building = folder.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    left_out = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in without
    )
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"<exclusions>{left_out}</exclusions></dependency>"
        for group, artifact, version in dependencies
    )
    (building / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>magnetar.tests</groupId><artifactId>{name}-jars</artifactId><version>1</version>"
        f"<dependencies>{wanted}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=."]
    try:
        done = subprocess.run(command, cwd=building, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        unavailable(f"the jars of {name} did not come within {DOWNLOAD_SECONDS} s")
    _, artifact, version = dependencies[0]
    if done.returncode != 0 or not (building / f"{artifact}-{version}.jar").exists():
        unavailable(f"the jars of {name} cannot be fetched: {done.stdout[-500:]}{done.stderr[-500:]}")
    building.rename(folder)
