"""The official client for tests that start a real server."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pulsar

from compat_tests.harness import Server


@contextmanager
def client_of(server: Server) -> Iterator[pulsar.Client]:
    """Yields a client of a server, which must be running."""
    client = pulsar.Client(server.broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        yield client
    finally:
        with suppress(pulsar.PulsarException):
            client.close()
