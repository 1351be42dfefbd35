"""Fixtures: a server shared by all tests that only need one, servers of a test's own, official clients, topic names.

A test fails when the server logs an ERROR line during it, unless the test puts the line's text into `allowed_errors`.
"""

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pulsar
import pytest

from compat_tests import redirects
from compat_tests.harness import Server, default_product
from compat_tests.products import MagnetarCluster

OPERATION_TIMEOUT_SECONDS = 30

SETTINGS = {"acknowledgmentAtBatchIndexLevelEnabled": "true"}

ServerFactory = Callable[..., Server]
ClientFactory = Callable[..., pulsar.Client]


redirects.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("shared"), settings=SETTINGS) as server:
        yield server


@pytest.fixture
def allowed_errors() -> list[str]:
    """Returns a list to which a test appends texts of the ERROR lines that it provokes on purpose."""
    return []


@pytest.fixture
def server(shared_server: Server, allowed_errors: list[str]) -> Iterator[Server]:
    """Yields the shared server, on which other tests' topics live too."""
    if not shared_server.is_running:
        shared_server.start()
    before = shared_server.log_size()
    yield shared_server
    assert shared_server.is_running, f"the server ended\n{shared_server.log_tail()}"
    shared_server.assert_no_errors(before, allowed_errors)


@pytest.fixture
def make_server(tmp_path: Path, allowed_errors: list[str]) -> Iterator[ServerFactory]:
    """Yields a function that makes servers of the test's own, not started yet. They are stopped and checked at the
    end."""
    servers: list[Server] = []

    def make(name: str = "own", *, settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> Server:
        made = Server(tmp_path / name, settings={**SETTINGS, **(settings or {})}, data_dir=data_dir)
        servers.append(made)
        return made

    yield make
    for each in servers:
        each.close()
    for each in servers:
        each.assert_no_errors(allowed=allowed_errors)


@pytest.fixture
def own_server(make_server: ServerFactory) -> Server:
    """Returns a started server that only this test uses, so that it may stop and kill it."""
    made = make_server()
    made.start()
    return made


@pytest.fixture
def make_client(tmp_path: Path) -> Iterator[ClientFactory]:
    """Yields a function that makes official clients, which log to `client.log`. They are closed at the end of the test,
    whether or not their server is alive."""
    log = str(tmp_path / "client.log")
    clients: list[pulsar.Client] = []

    def make(url: str, **options: object) -> pulsar.Client:
        options.setdefault("operation_timeout_seconds", OPERATION_TIMEOUT_SECONDS)
        made = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, log), **options)
        clients.append(made)
        return made

    yield make
    for each in clients:
        with contextlib.suppress(pulsar.PulsarException):
            each.close()


@pytest.fixture
def client(server: Server, make_client: ClientFactory) -> pulsar.Client:
    """Returns an official client of the shared server."""
    return make_client(server.broker_url)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Returns a topic name that no other test uses."""
    test = re.sub(r"[^\w-]+", "-", request.node.name)
    return f"persistent://public/default/{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def is_peer() -> bool:
    """Returns whether the tests run against Apache Pulsar."""
    return default_product().is_peer


@pytest.fixture
def is_cluster() -> bool:
    """Returns whether the tests run against brokers, bookies and metadata as processes of their own."""
    return isinstance(default_product(), MagnetarCluster)


@pytest.fixture
def stopwatch() -> Callable[[], float]:
    """Returns a function that says how many seconds ago the test began."""
    began = time.monotonic()
    return lambda: time.monotonic() - began
