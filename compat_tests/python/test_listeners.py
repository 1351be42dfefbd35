"""advertisedListeners with the official client: a client that names a listener is sent to its address."""

import json
import urllib.request

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory

SETTINGS = {"advertisedListeners": "inside:pulsar://127.0.0.1:1,outside:pulsar://localhost:2"}


def test_a_client_names_its_listener(
    make_server: ServerFactory, make_client: ClientFactory, topic: str, is_cluster: bool
) -> None:
    """The addresses are loopback ones, and clients of a standalone server stay on the port to which they connected."""
    if is_cluster:
        pytest.skip("the brokers of a cluster send their clients to the address of the listener, which nobody serves")
    server = make_server(settings=SETTINGS)
    server.start()
    place = topic.replace("://", "/")
    for asked, address in (("", "127.0.0.1:1"), ("?listenerName=outside", "localhost:2")):
        with urllib.request.urlopen(f"{server.web_url}/lookup/v2/topic/{place}{asked}", timeout=60) as answer:
            assert json.load(answer)["brokerUrl"] == f"pulsar://{address}"
    for name in ("", "inside", "outside"):
        client = make_client(server.broker_url, **({"listener_name": name} if name else {}))
        client.create_producer(topic).send(name.encode())
    stranger = make_client(server.broker_url, listener_name="nowhere", operation_timeout_seconds=2)
    with pytest.raises((pulsar.Timeout, pulsar.ServiceUnitNotReady)):
        stranger.create_producer(topic)
