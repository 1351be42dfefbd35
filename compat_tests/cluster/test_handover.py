"""Topics move from one broker to another while clients publish and consume: by unload, by an orderly stop, and because
the owner slept past its session. Nothing acknowledged is lost, and clients go on by themselves."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

QUORUMS = {f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=2, brokers=2, settings=QUORUMS) as made:
        yield made


class Publisher:
    """Publishes numbers every few milliseconds, and keeps the numbers that were confirmed in their order."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._producer = client.create_producer(topic, send_timeout_millis=0, max_pending_messages=100_000)
        self.confirmed: list[int] = []
        self.failures: list[str] = []
        self.gap_seconds = 0.0
        """The longest time between two receipts."""
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        number = 0
        while not self._ended.wait(0.005):
            self._producer.send_async(str(number).encode(), lambda result, _, sent=number: self._done(result, sent))
            number += 1
        self._producer.flush()

    def _done(self, result: pulsar.Result, number: int) -> None:
        now = time.monotonic()
        self.gap_seconds, self._last = max(self.gap_seconds, now - self._last), now
        if result == pulsar.Result.Ok:
            self.confirmed.append(number)
        else:
            self.failures.append(str(result))

    def goes_on(self) -> None:
        """Returns when something was confirmed that was published after this call began."""
        before = len(self.confirmed)
        wait_until(lambda: len(self.confirmed) > before + 50, "the publisher goes on", 40)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def call(method: str, url: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=40) as answer:
        return str(answer.read().decode())


def owner_of(cluster: Cluster, topic: str, asked: int = 0) -> BrokerSeat:
    url = f"{cluster.brokers[asked].web_url}/lookup/v2/topic/{topic.replace('://', '/')}"
    found = json.loads(call("GET", url))["brokerUrl"]
    return next(each for each in cluster.brokers if each.broker_url == found)


def bundle_url(cluster: Cluster, topic: str) -> str:
    """Returns the path of the calls on the topic's bundle, at some broker."""
    web_url, name = cluster.brokers[0].web_url, topic.replace("://", "/")
    bundle = call("GET", f"{web_url}/lookup/v2/topic/{name}/bundle")
    return f"{web_url}/admin/v2/namespaces/{'/'.join(topic.split('/')[2:4])}/{bundle}"


def all_of(client: pulsar.Client, topic: str, last: int) -> list[int]:
    """Returns the numbers of the topic's messages, without those that follow an equal one: a message may be stored
    twice when its receipt was lost."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    numbers: list[int] = []
    while not numbers or max(numbers) < last:
        numbers.append(int(reader.read_next(20_000).data()))
    return numbers


def check(client: pulsar.Client, topic: str, publisher: Publisher) -> None:
    """Every receipt is in the log, and the log has each number for the first time in the order of publishing."""
    assert publisher.failures == []
    confirmed = publisher.confirmed
    assert confirmed == sorted(set(confirmed))
    stored = list(dict.fromkeys(all_of(client, topic, confirmed[-1])))
    assert stored == sorted(stored)
    assert set(confirmed) <= set(stored)


def test_clients_follow_a_bundle_that_is_unloaded_split_and_handed_over(
    cluster: Cluster, make_client: ClientFactory, topic: str
) -> None:
    client = make_client(cluster.service_url)
    publisher = Publisher(client, topic)
    consumer = client.subscribe(topic, "s")
    publisher.goes_on()
    before = owner_of(cluster, topic)
    assert owner_of(cluster, topic, 1) is before

    other = next(each for each in cluster.brokers if each is not before)
    call_with_redirects(
        f"{bundle_url(cluster, topic)}/unload?destinationBroker={other.web_url.removeprefix('http://')}"
    )
    publisher.goes_on()
    assert owner_of(cluster, topic) is other

    call_with_redirects(f"{bundle_url(cluster, topic)}/split?unload=false")
    publisher.goes_on()
    assert owner_of(cluster, topic) is other

    other.stop()
    publisher.goes_on()
    assert owner_of(cluster, topic, cluster.brokers.index(before)) is before
    publisher.end()
    assert publisher.gap_seconds < 5, "a time that only a fault or a very busy machine takes"
    check(client, topic, publisher)
    seen = -1
    while seen < publisher.confirmed[-1]:
        message = consumer.receive(20_000)
        seen = max(seen, int(message.data()))
        consumer.acknowledge(message)


def call_with_redirects(url: str) -> None:
    """Makes a PUT and goes where it is sent to, with its method, as urllib does not."""
    for _ in range(5):
        try:
            call("PUT", url)
        except urllib.error.HTTPError as error:
            if error.code != 307:
                raise
            url = error.headers["Location"]
        else:
            return
    raise AssertionError(f"sent on and on, at last to {url}")


def test_an_owner_that_slept_past_its_session_confirms_nothing_more(
    cluster: Cluster, make_client: ClientFactory, topic: str
) -> None:
    """Its publisher and a client that only consumes find the new owner when it wakes up."""
    client = make_client(cluster.service_url)
    publisher = Publisher(client, topic)
    only_consumes = make_client(cluster.service_url).subscribe(topic, "only")
    publisher.goes_on()
    sleeper = owner_of(cluster, topic)
    asked = 1 - cluster.brokers.index(sleeper)
    sleeper.pause()
    wait_until(lambda: owner_of(cluster, topic, asked) is not sleeper, "another broker has the topic", 20)
    second = make_client(cluster.brokers[asked].broker_url)
    marker = second.create_producer(topic).send(b"-1")
    sleeper.resume()
    publisher.goes_on()
    publisher.end()
    confirmed = publisher.confirmed
    assert publisher.failures == []
    assert confirmed == sorted(set(confirmed))
    stored = all_of(client, topic, confirmed[-1])
    assert set(confirmed) <= set(stored)
    assert stored.count(-1) == 1
    assert marker is not None
    numbers: list[int] = []
    while not numbers or max(numbers) < confirmed[-1]:
        message = only_consumes.receive(20_000)
        numbers.append(int(message.data()))
        only_consumes.acknowledge(message)
    assert set(confirmed) <= set(numbers)
    assert owner_of(cluster, topic, 1 - asked) is not sleeper
