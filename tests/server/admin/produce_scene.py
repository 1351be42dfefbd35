"""A server whose web port publishes messages, and an official client that reads them."""

import json
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar

from tests.server.served import Served, serving

PLAIN = "/topics/persistent/public/default/t"


class Site(Served):
    """A server, and a client of it."""

    client: pulsar.Client

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Returns the status and the answer, parsed where it is JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            status, text = 200, self.get(path, method, data)
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def publish(self, messages: list[dict[str, Any]], path: str = PLAIN, **fields: Any) -> list[dict[str, Any]]:
        """Publishes and returns what became of each message."""
        status, answer = self.call("POST", path, {"messages": messages, **fields})
        assert status == 200, answer
        results: list[dict[str, Any]] = answer["messagePublishResults"]
        return results

    def stored(self, topic: str) -> list[pulsar.Message]:
        """Returns all messages of a topic."""
        reader = self.client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(10_000))
        reader.close()
        return found


@contextmanager
def site(folder: Path, **overrides: str) -> Iterator[Site]:
    with serving(folder, overrides=overrides) as served:
        made = Site(*served)
        made.client = pulsar.Client(
            f"pulsar://127.0.0.1:{served.port}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        try:
            made.call("PUT", "/admin/v2/persistent/public/default/t")
            yield made
        finally:
            made.client.close()
