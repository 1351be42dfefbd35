"""The WebSockets' scenario: one socket publishes, one consumes, many are idle, a hundred are busy."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.driver import Outcome
from bench.loads import LOAD_TIMEOUT_SECONDS, cost, median_of, new_server, publish, rate, subscribe
from bench.process_stats import memory_mb
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

FOLDER = "persistent/public/default"
BUSY_SOCKETS = 100
BUSY_MESSAGES_PER_SECOND = 1000
WARM_SOCKETS = 20
"""They are opened before the memory of the others is counted."""


def websockets(product: Product, sizes: Sizes) -> Figures:
    """All from one server. A peer on a JVM has one more run of each before those that count."""
    figures: Figures = {}
    runs = sizes.runs + int(product.is_peer)
    with new_server(product) as server:
        server.start()
        published, consumed = [], []
        for topic in (f"sockets-{number}" for number in range(runs)):
            subscribe(server, topic, "bench")
            published.append(one_socket(server, "publish", f"producer/{FOLDER}/{topic}", sizes))
            consumed.append(one_socket(server, "consume", f"consumer/{FOLDER}/{topic}/bench", sizes))
        figures["ws_publish_rate"] = median_of(published[-sizes.runs :], rate)
        figures["ws_publish_cpu"] = median_of(published[-sizes.runs :], cost)
        figures["ws_consume_rate"] = median_of(consumed[-sizes.runs :], rate)
        figures["ws_consume_cpu"] = median_of(consumed[-sizes.runs :], cost)
        figures["ws_idle_memory"] = idle_kilobytes(server, sizes.sockets)
        figures |= beside_binary_clients(server, sizes, runs)
    return figures


def one_socket(server: Server, mode: str, path: str, sizes: Sizes) -> Outcome:
    options = ["--path", path, "--messages", str(sizes.websocket), "--server-pid", str(server.pid)]
    command = [*driver(server, mode), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_TIMEOUT_SECONDS, check=True)
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def driver(server: Server, mode: str) -> list[str]:
    return [sys.executable, "-m", "bench.websocket_driver", mode, "--port", server.web_url.rpartition(":")[2]]


def idle_kilobytes(server: Server, count: int) -> float:
    """What each of `count` idle sockets takes. Half of them are producers, half are consumers of a Shared
    subscription."""
    kinds = [f"producer/{FOLDER}/idle", f"consumer/{FOLDER}/idle/sub?subscriptionType=Shared"]
    with many_sockets(server, "idle", kinds, WARM_SOCKETS):
        before = memory_mb(server.pid)
        with many_sockets(server, "idle", kinds, count):
            return (memory_mb(server.pid) - before) * 1000 / count


def beside_binary_clients(server: Server, sizes: Sizes, runs: int) -> Figures:
    """The rate of raw publishing over the binary port, without sockets beside it and with them."""
    quiet, beside = [], []
    for _ in range(runs):
        quiet.append(publish(server, "binary", sizes.unbatched))
        with many_sockets(server, "busy", [f"producer/{FOLDER}/busy"], BUSY_SOCKETS):
            beside.append(publish(server, "binary", sizes.unbatched))
    before, busy = (statistics.median(map(rate, outcomes[-sizes.runs :])) for outcomes in (quiet, beside))
    return {"ws_quiet_binary_rate": before, "ws_busy_binary_rate": busy, "ws_busy_ratio": busy / before}


@contextmanager
def many_sockets(server: Server, mode: str, paths: list[str], count: int) -> Iterator[None]:
    """So many sockets are open while the block runs, and busy ones publish."""
    options = ["--sockets", str(count), "--rate", str(BUSY_MESSAGES_PER_SECOND)]
    for path in paths:
        options += ["--path", path]
    command = [*driver(server, mode), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.stdin.close()
        said = process.stdout.read().strip()
        if process.wait() != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        if said:
            print(f"{count} busy sockets: {said} messages were stored", file=sys.stderr)
