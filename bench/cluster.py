"""The cluster's scenario: two brokers, three bookies and their metadata, all processes counted together.

Gaps are the longest times between two receipts that an official client sees which publishes at a steady rate, from the
last receipt before the event on.
"""

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.apache_cluster import ApacheCluster
from bench.driver import Outcome, quantile
from bench.loads import BATCH, BATCH_WINDOW, LOAD_TIMEOUT_SECONDS, NAMESPACE, cost, median_of, rate
from bench.our_cluster import OurCluster
from bench.process_stats import cpu_seconds, memory_mb
from bench.sizes import Figures, Sizes
from compat_tests import wire
from compat_tests.cluster.supervised import SteadyPublisher
from compat_tests.harness import wait_until
from compat_tests.products import Product

BROKERS, BOOKIES = 2, 3
GAP_RATE = 100
"""Messages a second of the publisher whose gaps count."""
PARTITIONS = 1000
MOVE_RATE = 2000
SETTLE_SECONDS = 5.0
"""What the start leaves to be done is done by then."""
RETURN_SECONDS = 120.0
"""How long receipts may stay away after an event: a session of Apache's broker ends after 30 s."""
ATTEMPTS = 4
UNLOAD = "namespaces/public/default/unload"

Cluster = OurCluster | ApacheCluster


def cluster(product: Product, sizes: Sizes) -> Figures:
    """Measures one cluster, ours or Apache's."""
    folder = Path(tempfile.mkdtemp(prefix="bench-cluster-"))
    made: Cluster
    if product.is_peer:
        made = ApacheCluster(folder, brokers=BROKERS, bookies=BOOKIES)
    else:
        made = OurCluster(folder, brokers=BROKERS, bookies=BOOKIES)
    try:
        figures = {"cluster_start": made.start()}
        figures |= idle(made, sizes) | publishing(made, sizes) | gaps(made, sizes)
        if not product.is_peer:
            # Apache's broker was seen to take more than a minute for one topic of 1,000 partitions; this needs 100.
            figures |= lookups(made, sizes)
        made.close()
        made.assert_no_errors()
        return figures
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def cpu_of(pids: Sequence[int]) -> float:
    """Returns the CPU seconds of processes so far. Those that other ones started are among them: each counts alone."""
    return sum(cpu_seconds(pid, with_descendants=False) for pid in pids)


def idle(made: Cluster, sizes: Sizes) -> Figures:
    time.sleep(SETTLE_SECONDS)
    pids = made.pids()
    before, began = cpu_of(pids), time.monotonic()
    time.sleep(sizes.idle_seconds)
    percent = (cpu_of(pids) - before) / (time.monotonic() - began) * 100
    memory = sum(memory_mb(pid, with_descendants=False) for pid in pids)
    return {"cluster_memory": memory, "cluster_idle_cpu": percent}


def publishing(made: Cluster, sizes: Sizes) -> Figures:
    """Publishes to one topic, so that one broker and all bookies work."""
    figures: Figures = {}
    for key, topic, batch, messages in (
        ("cluster", "single", 1, sizes.unbatched // 3),
        ("cluster_batch", "batched", BATCH, sizes.batched),
    ):
        with wire.WireClient(made.broker_port) as client:
            client.subscribe(f"{NAMESPACE}/{topic}", "bench")
        publish_whole(made, topic, messages // 2, batch)
        runs = [publish_whole(made, topic, messages, batch) for _ in range(sizes.runs)]
        figures |= {f"{key}_rate": median_of(runs, rate), f"{key}_cpu": median_of(runs, cost)}
    return figures


def publish_whole(made: Cluster, topic: str, messages: int, batch: int) -> Outcome:
    """Publishes like `publish`, up to `ATTEMPTS` times until a run is not broken off. Apache's broker breaks one off
    now and then: with Qa < Qw it goes at the pace of the two fastest bookies, and gives the ledger up when the third is
    bookkeeperClientTimeoutInSeconds behind and nobody can replace it."""
    for _ in range(ATTEMPTS - 1):
        try:
            return publish(made, topic, messages, batch)
        except subprocess.CalledProcessError:
            print(f"{topic}: the cluster broke the run off; once more", file=sys.stderr)
    return publish(made, topic, messages, batch)


def publish(made: Cluster, topic: str, messages: int, batch: int) -> Outcome:
    """Publishes as fast as the window allows, and counts the CPU time of every process of the cluster."""
    command = [sys.executable, "-m", "bench.driver", "publish", "--port", str(made.broker_port)]
    command += ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages), "--batch", str(batch)]
    command += ["--server-pid", str(made.pids()[0]), *(["--window", str(BATCH_WINDOW)] if batch > 1 else [])]
    pids = made.pids()
    before = cpu_of(pids)
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_TIMEOUT_SECONDS, check=True)
    outcome = Outcome(**json.loads(done.stdout.splitlines()[-1]))
    outcome.server_cpu_seconds = cpu_of(pids) - before
    return outcome


def gaps(made: Cluster, sizes: Sizes) -> Figures:
    topic = f"{NAMESPACE}/gaps"
    with SteadyPublisher(made.service_url, [topic], rate=GAP_RATE, timeout_seconds=int(RETURN_SECONDS)) as publisher:

        def longest(happen: Callable[[int], None]) -> float:
            """Lets something happen to the topic's owner, and returns the median of the gaps."""
            found = []
            for _ in range(sizes.rounds):
                publisher.goes_on(timeout_seconds=RETURN_SECONDS)
                moment = time.monotonic()
                happen(made.owner(topic))
                publisher.goes_on(timeout_seconds=RETURN_SECONDS)
                found.append(publisher.gap_since(moment))
            return statistics.median(found)

        figures = {
            "cluster_kill_gap": longest(lambda owner: made.end(owner, signal.SIGKILL)),
            "cluster_term_gap": longest(lambda owner: made.end(owner, signal.SIGTERM)),
            "cluster_unload_gap": longest(lambda _: made.call("PUT", UNLOAD)),
        }
        moment = time.monotonic()
        made.freeze(sizes.frozen_seconds)
        publisher.goes_on(timeout_seconds=RETURN_SECONDS)
        figures["cluster_frozen_gap"] = publisher.gap_since(moment)
    figures["cluster_moved"], refused = moved(made, sizes)
    return figures | {"cluster_refused": len(publisher.failures) + refused}


def moved(made: Cluster, sizes: Sizes) -> tuple[float, int]:
    """Returns the seconds from an unload of all bundles until each of many topics with a producer has a receipt from
    its next owner, and how many messages were refused."""
    topics = [f"{NAMESPACE}/moved-{number}" for number in range(sizes.moved_topics)]
    with SteadyPublisher(made.service_url, topics, rate=MOVE_RATE) as publisher:
        wait_until(lambda: min(publisher.last_receipts) > 0, "receipts of all topics")
        publisher.pause()
        began = time.monotonic()
        made.call("PUT", UNLOAD)
        unloaded = time.monotonic()
        publisher.send_to_each()
        wait_until(lambda: min(publisher.last_receipts) > unloaded, "receipts of all topics after their move")
        seconds = time.monotonic() - began
    return seconds, len(publisher.failures)


def lookups(made: Cluster, sizes: Sizes) -> Figures:
    """Measures binary lookups at one broker, one after the other, with many topics in the metadata."""
    many = sizes.listed_topics // PARTITIONS
    for number in range(many):
        made.call("PUT", f"persistent/public/default/many-{number}/partitions", PARTITIONS)
    loaded = f"{NAMESPACE}/gaps"
    others = [f"{NAMESPACE}/many-{number % many}-partition-{number % PARTITIONS}" for number in range(sizes.lookups)]
    return {
        "cluster_lookup_loaded": lookup_p99(made, [loaded] * sizes.lookups),
        "cluster_lookup": lookup_p99(made, others),
    }


def lookup_p99(made: Cluster, topics: Sequence[str]) -> float:
    """Returns the 99th percentile of the milliseconds that the answer to a lookup takes."""
    times = []
    with wire.WireClient(made.broker_port) as client:
        for number, topic in enumerate(topics):
            began = time.perf_counter()
            client.send(wire.LOOKUP, [(1, topic), (2, number), (3, 0)])
            answer = client.expect(wire.LOOKUP_RESPONSE)
            times.append((time.perf_counter() - began) * 1000)
            assert wire.number(answer, 3) != wire.FAILED, f"{topic}: {answer}"
    return quantile(sorted(times), 0.99)
