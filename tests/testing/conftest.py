"""A server that the tests of faults share, and an official client of it."""

from collections.abc import Iterator

import pulsar
import pytest

from magnetar.testing import Server
from tests.testing.scenes import client_of


@pytest.fixture(scope="session")
def shared() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    """Yields the shared server, without faults before and after the test."""
    if not shared.is_running:
        shared.start()
    yield shared
    shared.faults.clear()


@pytest.fixture
def topic(server: Server) -> Iterator[str]:
    with server.namespace() as namespace:
        yield f"persistent://{namespace}/orders"


@pytest.fixture
def client(server: Server) -> Iterator[pulsar.Client]:
    with client_of(server.service_url) as client:
        yield client
