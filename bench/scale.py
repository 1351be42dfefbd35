"""The scenario of many topics: `magnetar zookeeper`, three bookies and two brokers, at growing numbers of topics in one
namespace's metadata. At each number everything is measured that could grow with it."""

import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bench.driver import quantile
from bench.process_stats import cpu_seconds, memory_mb
from bench.scale_topics import BUNDLES, NAMESPACE, Topics
from bench.sizes import Figures, Sizes
from compat_tests import wire
from compat_tests.cluster.admin import call
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.own_zookeeper import OwnZooKeeper
from compat_tests.cluster.process import ClusterProcess
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until
from compat_tests.products import Product

BROKERS, BOOKIES = 2, 3
SETTINGS = {
    "brokerDeleteInactiveTopicsEnabled": "false",
    "metadataStoreSessionTimeoutMillis": "10000",
    "maxMessageSize": "5242880",
}
LIST_SECONDS = 120.0
READY_SECONDS = 120.0
RETURN_SECONDS = 120.0
SETTLE_SECONDS = 3.0
POLL_SECONDS = 0.05
GET_TOPICS, TOPICS, ERROR = 32, 33, 14
PATTERN = f"persistent://{NAMESPACE}/rest-1.*"
POLICIES = f"/admin/v2/namespaces/{NAMESPACE}"

T = TypeVar("T")


def scale(product: Product, sizes: Sizes) -> Figures:
    """Measures one cluster of ours at each of `sizes.scale_topics`. The figures of the last number of topics have plain
    keys; the key of an earlier one ends in `@` and the number."""
    assert not product.is_peer, "this scenario has no peer"
    folder = Path(tempfile.mkdtemp(prefix="bench-scale-"))
    made = Cluster(
        folder, brokers=BROKERS, bookies=BOOKIES, settings=SETTINGS, seats=Seats(metadata=OwnZooKeeper), name="scale"
    )
    figures: Figures = {}
    try:
        made.start()
        call(made.brokers[0], POLICIES, "PUT", {"bundles": {"numBundles": BUNDLES}})
        topics = Topics()
        for total in sizes.scale_topics:
            found = _Measured(made, topics, sizes).at(total)
            is_last = total == sizes.scale_topics[-1]
            figures |= found if is_last else {f"{key}@{total}": figure for key, figure in found.items()}
            _say(f"{total:,} topics: " + json.dumps({key: round(figure, 2) for key, figure in found.items()}))
        made.close()
        for line in made.error_lines():
            _say(line)
        figures["scale_errors"] = len(made.error_lines())
        return figures
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


class _Measured:
    """One number of topics."""

    def __init__(self, made: Cluster, topics: Topics, sizes: Sizes) -> None:
        self._made = made
        self._topics = topics
        self._sizes = sizes
        self._first, self._second = made.brokers[:2]

    def at(self, total: int) -> Figures:
        figures: Figures = {}
        steps: tuple[Callable[[], Figures], ...] = (
            lambda: self._grow(total),
            self._lists,
            self._lookups,
            self._policies,
            self._idle,
            self._third_broker,
            self._kill,
            self._restart_metadata,
        )
        for step in steps:
            began = time.monotonic()
            found = step()
            figures |= found
            _say(f"  {total:,}: {time.monotonic() - began:.1f} s: {found}")
        return figures

    def _grow(self, total: int) -> Figures:
        growth = self._topics.grow(self._first, self._made.zookeeper, total)
        return {
            "scale_rest_rate": growth.partitions / 1000,
            "scale_single_rate": growth.singles / 1000,
            "scale_record_rate": growth.records / 1000,
        }

    def _lists(self) -> Figures:
        rest, names = _timed(lambda: call(self._second, f"/admin/v2/persistent/{NAMESPACE}"))
        assert len(names) >= self._topics.count, f"{len(names)} topics of {self._topics.count} were listed"
        partitioned, found = _timed(lambda: call(self._second, f"/admin/v2/persistent/{NAMESPACE}/partitioned"))
        assert len(found) == len(self._topics.partitioned)
        pattern, matching = _timed(lambda: self._listed(PATTERN))
        expected = sum(name.startswith(PATTERN[:-2]) for name in self._topics.loaded)
        assert len(matching or ()) == expected, f"{len(matching or ())} topics match, not {expected}"
        whole, _ = _timed(lambda: self._listed(None))
        return {
            "scale_list": rest,
            "scale_partitioned_list": partitioned,
            "scale_pattern": pattern,
            "scale_whole": whole,
        }

    def _listed(self, pattern: str | None) -> list[bytes] | None:
        """Returns the names in the answer to GET_TOPICS_OF_NAMESPACE; None when the broker refuses."""
        fields: list[wire.Field] = [(1, 1), (2, NAMESPACE), (3, 0)]
        with wire.WireClient(_port(self._second)) as client:
            client.send(GET_TOPICS, [*fields, *([(4, pattern)] if pattern else [])])
            kind, answer, _ = client.receive(LIST_SECONDS)
        if kind == ERROR:
            _say(f"  the broker refuses the list: {wire.text(answer, 3)}")
            return None
        assert kind == TOPICS, f"expected topics, got command {kind}"
        return [name for name in answer.get(2, ()) if isinstance(name, bytes)]

    def _lookups(self) -> Figures:
        count = self._sizes.lookups
        loaded = [self._topics.loaded[number % len(self._topics.loaded)] for number in range(count)]
        unloaded = self._topics.unloaded(count)
        for topic in (*loaded[:count:7], *unloaded[:count:7]):
            wire.owner_port(_port(self._first), topic)  # gives each bundle an owner
        return {
            "scale_lookup_loaded": self._lookup_p99(loaded),
            "scale_lookup": self._lookup_p99(unloaded),
        }

    def _lookup_p99(self, topics: Sequence[str]) -> float:
        """Returns the 99th percentile of the milliseconds that the answer to a lookup takes."""
        times = []
        with wire.WireClient(_port(self._first)) as client:
            for number, topic in enumerate(topics):
                began = time.perf_counter()
                client.send(wire.LOOKUP, [(1, topic), (2, number), (3, 0)])
                answer = client.expect(wire.LOOKUP_RESPONSE)
                times.append((time.perf_counter() - began) * 1000)
                assert wire.number(answer, 3) != wire.FAILED, f"{topic}: {answer}"
        return quantile(sorted(times), 0.99)

    def _policies(self) -> Figures:
        """Changes a policy of the namespace, and one of a topic."""
        minutes = int(time.monotonic())

        def change_namespace() -> None:
            retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": -1}
            call(self._first, f"{POLICIES}/retention", "POST", retention)
            while call(self._second, f"{POLICIES}/retention")["retentionTimeInMinutes"] != minutes:
                time.sleep(POLL_SECONDS)

        topic = self._topics.loaded[-1].removeprefix("persistent://")
        path = f"/admin/v2/persistent/{topic}/maxConsumers"
        return {
            "scale_namespace_policy": _timed(change_namespace)[0],
            "scale_topic_policy": _timed(lambda: call(self._first, path, "POST", 7))[0],
        }

    def _idle(self) -> Figures:
        made = self._made
        running = [each for each in made.processes if each.is_running]
        time.sleep(SETTLE_SECONDS)
        before, began = [cpu_seconds(each.pid) for each in running], time.monotonic()
        time.sleep(self._sizes.idle_seconds)
        seconds = time.monotonic() - began
        after = [cpu_seconds(each.pid) for each in running]
        return {
            "scale_idle_cpu": (sum(after) - sum(before)) / seconds * 100,
            "scale_zookeeper_memory": memory_mb(made.zookeeper.pid),
            "scale_bookies_memory": sum(memory_mb(each.pid) for each in made.bookies),
            "scale_broker_memory": max(memory_mb(each.pid) for each in made.brokers[:BROKERS]),
        }

    def _third_broker(self) -> Figures:
        """Starts a third broker, which has loaded nothing."""
        if len(self._made.brokers) == BROKERS:
            self._made.add_broker()
        third = self._made.brokers[BROKERS]
        seconds, _ = _timed(lambda: _start(third))
        time.sleep(SETTLE_SECONDS)
        memory, cpu = memory_mb(third.pid), cpu_seconds(third.pid)
        third.stop()
        return {"scale_start": seconds, "scale_start_cpu": cpu, "scale_new_broker_memory": memory}

    def _kill(self) -> Figures:
        """Kills the second broker, and counts the time from the end of its session until one topic of each of its
        bundles that has a loaded topic has answered a producer at another broker."""
        port, asked = _port(self._second), self._topics.loaded[:200]
        call(self._first, f"{POLICIES}/unload", "PUT")  # afterwards both brokers get bundles again
        for topic in asked:
            self._open(topic)
        owned = [topic for topic in asked if wire.owner_port(_port(self._first), topic) == port]
        self._second.kill()
        began = time.monotonic()
        wait_until(lambda: self._second.broker_id not in _registered(self._first), "the end of the session", 60)
        ended, before = time.monotonic(), cpu_seconds(self._first.pid)
        for topic in owned:
            self._open(topic)
        done, cpu = time.monotonic(), cpu_seconds(self._first.pid) - before
        self._second.start()
        return {
            "scale_kill_session": ended - began,
            "scale_takeover": done - ended,
            "scale_takeover_cpu": cpu,
            "scale_taken": len(owned),
        }

    def _open(self, topic: str) -> None:
        deadline = time.monotonic() + RETURN_SECONDS
        while True:
            try:
                with wire.WireClient(_port(self._first)) as client:
                    client.open_producer(topic)
                return
            except (OSError, AssertionError, wire.ClosedError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def _restart_metadata(self) -> Figures:
        """Kills the metadata server and starts it again."""
        zookeeper = self._made.zookeeper
        zookeeper.kill()
        seconds, _ = _timed(zookeeper.start)
        peak, cpu = _peak_mb(zookeeper), cpu_seconds(zookeeper.pid)
        for broker in self._made.brokers[:BROKERS]:
            _await_ready(broker)
        return {"scale_zookeeper_start": seconds, "scale_zookeeper_start_cpu": cpu, "scale_zookeeper_peak": peak}


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.monotonic()
    result = work()
    return time.monotonic() - began, result


def _start(broker: BrokerSeat) -> None:
    broker.start()
    _await_ready(broker)


def _await_ready(broker: BrokerSeat) -> None:
    """Waits until the broker is a member of its cluster, and answers what needs the metadata."""

    def is_ready() -> bool:
        try:
            urllib.request.urlopen(f"{broker.web_url}/admin/v2/brokers/ready", timeout=READY_SECONDS).close()
            call(broker, POLICIES)
            return True
        except OSError:
            return False

    wait_until(is_ready, "the broker's readiness", READY_SECONDS)


def _registered(broker: BrokerSeat) -> list[str]:
    return list(call(broker, "/admin/v2/brokers/scale"))


def _port(broker: BrokerSeat) -> int:
    return int(broker.broker_url.rpartition(":")[2])


def _peak_mb(process: ClusterProcess) -> float:
    """Returns the largest resident set of the process so far, in MB (10^6 bytes)."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise AssertionError("no VmHWM")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
