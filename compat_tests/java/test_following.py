"""Apache's Java client learns of topics that match its pattern, and finds new partitions (`Following.java`)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server
from compat_tests.java.client_jars import JAVA, TOOLS
from compat_tests.maven_jars import class_path, need_java
from compat_tests.python.rest import Admin

ANSWER = "<<< "

pytestmark = pytest.mark.slow


class JavaClient:
    def __init__(self, server: Server, folder: Path) -> None:
        source, jars = Path(__file__).with_name("Following.java"), class_path("pulsar-tools", TOOLS)
        self._errors = (folder / "errors").open("w+")
        self._process = subprocess.Popen(
            [*JAVA, "-cp", jars, str(source), server.broker_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        self._errors.seek(0)
        raise AssertionError(f"the client ended: {self._errors.read()[-2_000:]}")

    def ask(self, words: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._errors.close()


@pytest.fixture
def java(own_server: Server, tmp_path: Path) -> Iterator[JavaClient]:
    need_java()
    admin = Admin(own_server)
    admin.put("persistent/public/default/parts/partitions", 1)
    admin.put("persistent/public/default/order-1")
    made = JavaClient(own_server, tmp_path)
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
