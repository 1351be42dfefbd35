"""Streams of events that a page shows: they follow what the official client does, and end where they should."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin

TIMEOUT_SECONDS = 60
EVENTS_MAX = 60


def events(server: Server, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (event, data) of a stream until it ends."""
    with closing(urllib.request.urlopen(f"{server.web_url}/admin/v2/{path}", timeout=TIMEOUT_SECONDS)) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        name = ""
        for line in answer:
            kind, _, text = line.decode().rstrip("\n").partition(": ")
            if kind == "event":
                name = text
            elif kind == "data":
                yield name, json.loads(text)


def first_that(server: Server, path: str, is_meant: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _, (_, data) in zip(range(EVENTS_MAX), events(server, path), strict=False):
        if is_meant(data):
            return data
    raise AssertionError(f"{path}: no such event among {EVENTS_MAX}")


@pytest.fixture
def publishing(client: pulsar.Client, topic: str) -> Iterator[None]:
    """Publishes to the topic until the test ends."""
    producer, ends = client.create_producer(topic), threading.Event()

    def publish() -> None:
        while not ends.wait(0.005):
            producer.send(b"x" * 100)

    thread = threading.Thread(target=publish)
    thread.start()
    yield
    ends.set()
    thread.join()


def test_a_topics_rates_and_backlog_are_streamed(
    server: Server, client: pulsar.Client, topic: str, publishing: None
) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    path = f"{topic.replace('://', '/')}/live"
    data = first_that(server, path, lambda data: bool(data["msgRateIn"] and data["msgRateOut"]))
    assert (data["topic"], data["producers"], data["subscriptions"]["s"]["consumers"]) == (topic, 1, 1)
    assert data["storageSize"] > 0
    first_that(server, path, lambda data: data["subscriptions"]["s"]["unackedMessages"] > 0)
    consumer.close()
    first_that(server, path, lambda data: data["subscriptions"]["s"]["consumers"] == 0)


def test_the_brokers_sums_are_streamed(server: Server, topic: str, publishing: None) -> None:
    data = first_that(server, "broker-stats/live", lambda data: bool(data["msgRateIn"]))
    assert data["msgThroughputIn"] >= data["msgRateIn"]
    assert min(data[name] for name in ("topics", "producers", "connections", "memoryBytes", "storageBytes")) > 0
    assert data["publishLatencyMs"]["p99"] >= data["publishLatencyMs"]["p50"] > 0
    assert data["attention"] == []


def test_the_first_event_has_no_rates_because_there_is_nothing_to_compare_with(
    server: Server, topic: str, publishing: None
) -> None:
    stream = events(server, f"{topic.replace('://', '/')}/live")
    _, first = next(stream)
    assert (first["msgRateIn"], first["msgRateOut"]) == (None, None)
    assert all(data["msgRateIn"] is not None for _, (_, data) in zip(range(3), stream, strict=False))


def test_a_caller_may_ask_for_a_few_events(server: Server, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic)
    assert len(list(events(server, f"{topic.replace('://', '/')}/live?events=2"))) == 2


def test_a_stream_ends_with_its_topic(server: Server, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).close()
    path = topic.replace("://", "/")
    assert {name for name, _ in _until_deleted(server, path)} == {"topic"}


def _until_deleted(server: Server, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, event in enumerate(events(server, f"{path}/live")):
        if index == 0:
            Admin(server).delete(path)
        yield event


def test_those_who_leave_are_forgotten_and_there_are_never_too_many(
    make_server: ServerFactory, make_client: ClientFactory
) -> None:
    server = make_server(settings={"maxConcurrentHttpRequests": "2000"})
    server.start()
    path = f"{server.web_url}/admin/v2/broker-stats/live"
    streams = [urllib.request.urlopen(path, timeout=TIMEOUT_SECONDS) for _ in range(200)]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(path, timeout=TIMEOUT_SECONDS)
    assert (refused.value.code, "try again" in refused.value.read().decode()) == (503, True)
    for each in streams:
        each.close()

    def is_free() -> bool:
        try:
            urllib.request.urlopen(path, timeout=TIMEOUT_SECONDS).close()
        except urllib.error.HTTPError:
            return False
        return True

    wait_until(is_free, "a stream is free again")
