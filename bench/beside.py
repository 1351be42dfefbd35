"""The scenario of publishing beside other work: what each kind of work does to the latency of a client that publishes
1,000 messages a second.

Magnetar's server watches its own event loop meanwhile, so the run also tells which callbacks held the loop. The time of
a callback is CPU time, so that other work on the machine does not count.
"""

import asyncio
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType

import pulsar

from bench.admin import admin_calls, make_topics
from bench.features import run
from bench.loads import NAMESPACE, latency_at, load, publish, subscribe
from bench.scrape import FULL_COLLECTIONS, HELD, load_topics
from bench.sizes import Figures, Sizes
from compat_tests.harness import CPU_LIMIT_VARIABLE, Server
from compat_tests.products import Product

PER_SECOND = 1000
STALL_LIMIT_MS = 10
ADMIN_CALLS = 100
STORED_PER_SECOND = 5000
KEYS = 1000
TIMEOUT_SECONDS = 120
COMPACTION_POLL_SECONDS = 0.05
TENANT_PATH = "/admin/v2/persistent/public/default"
UPKEEP = {"flushInterval": "1000", "gcWaitTime": "1000", "entryLogSizeLimit": str(32 << 20)}
"""A checkpoint and a garbage collection of the bookie every second."""

Work = Callable[[Server, Sizes], AbstractContextManager[None]]


def beside(product: Product, sizes: Sizes) -> Figures:
    """Measures all kinds of work on one server, one after the other, and the bookie's upkeep on a second one."""
    parts: list[Figures] = []
    with _watched_server(product, {}) as server:
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        parts.append(_latencies(server, sizes, "quiet", _nothing))
        for name, work in _WORKS.items():
            if name != "metrics" or not product.is_peer:  # Apache takes a quarter of an hour to make so many topics.
                parts.append(_latencies(server, sizes, name, work))
        parts.append(_longest_stall(server))
    with _watched_server(product, UPKEEP) as server:
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        parts += (_latencies(server, sizes, "upkeep", _storing_and_deleting), _longest_stall(server))
    figures: Figures = {}
    for part in parts:
        figures |= {key: max(value, figures.get(key, 0.0)) for key, value in part.items()}
    return figures


@contextmanager
def _watched_server(product: Product, settings: Mapping[str, str]) -> Iterator[Server]:
    """Yields a running server on an empty folder."""
    folder = Path(tempfile.mkdtemp(prefix="bench-beside-"))
    environment = {CPU_LIMIT_VARIABLE: str(STALL_LIMIT_MS)}
    server = Server(folder, product=product, settings=settings, environment=environment)
    try:
        server.start()
        yield server
    finally:
        server.kill()  # An orderly stop of so many topics takes long, and is not measured here.
        shutil.rmtree(folder, ignore_errors=True)


def _latencies(server: Server, sizes: Sizes, name: str, work: Work) -> Figures:
    """Returns the latencies beside one kind of work, and how long full garbage collections took meanwhile."""
    with work(server, sizes):
        before = _collection_seconds(server)
        outcome = latency_at(server, PER_SECOND, sizes.latency_seconds)
        collected_ms = (_collection_seconds(server) - before) * 1000
    print(f"  {name}: p50 {outcome.p50_ms:.2f} ms, longest {outcome.max_ms:.1f} ms", file=sys.stderr, flush=True)
    figures = {f"beside_{name}_p99": outcome.p99_ms, f"beside_{name}_p999": outcome.p999_ms}
    return figures if server.product.is_peer else {**figures, "beside_collections": collected_ms}


def _collection_seconds(server: Server) -> float:
    """Returns how long all full garbage collections of our server have taken."""
    if server.product.is_peer:
        return 0.0
    return float(dict(FULL_COLLECTIONS.findall(_call("GET", f"{server.web_url}/metrics/")))[b"sum"])


def _longest_stall(server: Server) -> Figures:
    """Returns the longest callback that held the event loop of our server; nothing for a peer."""
    if server.product.is_peer:
        return {}
    stalls = HELD.findall(server.log_path.read_text())
    for milliseconds, place in stalls:
        print(f"  {milliseconds} ms in {place}", file=sys.stderr, flush=True)
    return {"beside_stall": max((float(milliseconds) for milliseconds, _ in stalls), default=0.0)}


# --- the kinds of work -----------------------------------------------------------------------------------------------


@contextmanager
def _repeated(step: Callable[[int], object]) -> Iterator[None]:
    """Does a step again and again on a thread while the block runs; the step gets the number of its repetition. Raises
    the error of a step after the block."""
    ends = threading.Event()
    errors: list[Exception] = []

    def work() -> None:
        number = 0
        try:
            while not ends.is_set():
                step(number)
                number += 1
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def _nothing(server: Server, sizes: Sizes) -> Iterator[None]:
    yield


@contextmanager
def _reading(server: Server, sizes: Sizes) -> Iterator[None]:
    """One subscription after the other drains a million stored messages."""
    subscribe(server, "stored", "keeps")
    publish(server, "stored", sizes.stored)
    topic = ["--topic", f"{NAMESPACE}/stored", "--messages", str(sizes.stored)]
    with _repeated(lambda number: load("bench.driver", "consume", server, *topic, "--subscription", f"s-{number}")):
        yield


@contextmanager
def _compacting(server: Server, sizes: Sizes) -> Iterator[None]:
    topic, path = f"{NAMESPACE}/keyed", f"{server.web_url}{TENANT_PATH}/keyed/compaction"
    client = pulsar.Client(server.broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(sizes.unbatched // 3):
        producer.send_async(bytes(1024), lambda result, _: None, partition_key=str(number % KEYS))
    producer.flush()
    client.close()

    def compact(_: int) -> None:
        _call("PUT", path)
        while json.loads(_call("GET", path))["status"] == "RUNNING":
            time.sleep(COMPACTION_POLL_SECONDS)

    with _repeated(compact):
        yield


@contextmanager
def _making_topics(server: Server, sizes: Sizes) -> Iterator[None]:
    with _repeated(lambda number: run(server, "topics", f"made-{number}", sizes.topics)):
        yield


@contextmanager
def _scraping(server: Server, sizes: Sizes) -> Iterator[None]:
    """The page is read again and again, compressed as Prometheus asks for it."""
    asyncio.run(load_topics(server, range(sizes.beside_topics)))
    with _repeated(lambda _: _call("GET", f"{server.web_url}/metrics/", {"Accept-Encoding": "gzip"})):
        yield


@contextmanager
def _calling(server: Server, sizes: Sizes) -> Iterator[None]:
    make_topics(server, sizes.topics)
    with admin_calls(server, sizes.topics, ADMIN_CALLS):
        yield


@contextmanager
def _storing_and_deleting(server: Server, sizes: Sizes) -> Iterator[None]:
    """A topic after the other is filled, with STORED_PER_SECOND messages of 1 KB, and deleted."""

    def fill(number: int) -> None:
        what = ["--messages", str(STORED_PER_SECOND), "--rate", str(STORED_PER_SECOND)]
        load("bench.driver", "latency", server, "--topic", f"{NAMESPACE}/gone-{number}", *what)
        _call("DELETE", f"{server.web_url}{TENANT_PATH}/gone-{number}?force=true")

    with _repeated(fill):
        yield


def _call(method: str, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    request = urllib.request.Request(url, method=method, headers=dict(headers))
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        body: bytes = answer.read()
        return body


_WORKS: dict[str, Work] = {
    "admin": _calling,
    "reader": _reading,
    "compaction": _compacting,
    "making": _making_topics,
    "metrics": _scraping,
}
