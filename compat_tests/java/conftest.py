"""The Java clients with which transactions are tested."""

import pytest

from compat_tests.java.client_jars import TOOLS, client_and_admin_jars
from compat_tests.maven_jars import class_path, need_java

OLDER = "2.10.6"


@pytest.fixture(scope="module", params=[TOOLS[0][2], pytest.param(OLDER, marks=pytest.mark.long)])
def java_jars(request: pytest.FixtureRequest) -> str:
    """Returns the class path of a Java client."""
    need_java()
    return client_and_admin_jars(OLDER) if request.param == OLDER else class_path("pulsar-tools", TOOLS)
