"""Apache's Java client learns of topics that match its pattern, and finds new partitions (`Following.java`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server
from compat_tests.java.java_client import JavaClient
from compat_tests.maven_jars import need_java
from compat_tests.python.rest import Admin

pytestmark = pytest.mark.slow


@pytest.fixture
def java(own_server: Server, tmp_path: Path) -> Iterator[JavaClient]:
    need_java()
    admin = Admin(own_server)
    admin.put("persistent/public/default/parts/partitions", 1)
    admin.put("persistent/public/default/order-1")
    made = JavaClient("Following.java", own_server.broker_url, tmp_path)
    yield made
    made.close()


def test_the_java_client_follows(java: JavaClient, own_server: Server, make_client: ClientFactory) -> None:
    assert java.answer() == "ready"
    admin, client = Admin(own_server), make_client(own_server.broker_url)
    client.create_producer("persistent://public/default/order-1").send(b"first")
    assert java.ask("receive") == "first"

    # The subscription exists before the client learns of the topic; the client itself would make it at the topic's end.
    admin.put("persistent/public/default/order-2")
    admin.put("persistent/public/default/order-2/subscription/s", {"ledgerId": -1, "entryId": -1})
    client.create_producer("persistent://public/default/order-2").send(b"second")
    assert java.ask("receive") == "second"

    assert java.ask("spread 1") == "[0]"
    admin.post("persistent/public/default/parts/partitions", 3)
    assert java.ask("spread 3") == "[0, 1, 2]"
