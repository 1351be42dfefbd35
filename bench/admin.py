"""The admin scenario: what a thousand admin calls in flight do to the latency of publishing.

The p99 of a quiet server differs by more than a factor of two between two runs on the same machine. So quiet and loaded
measurements take turns, and their medians are compared.
"""

import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.driver import Outcome
from bench.loads import latency_at, new_server, publish, subscribe
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

IN_FLIGHT = 1000
PER_SECOND = 1000


def admin(product: Product, sizes: Sizes) -> Figures:
    """Measures the quiet and the loaded figures on the same server, by turns."""
    quiet: list[Outcome] = []
    loaded: list[Outcome] = []
    with new_server(product) as server:
        server.start()
        make_topics(server, sizes.topics)
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        for _ in range(sizes.rounds):
            quiet.append(latency_at(server, PER_SECOND, sizes.latency_seconds))
            with admin_calls(server, sizes.topics, IN_FLIGHT):
                loaded.append(latency_at(server, PER_SECOND, sizes.latency_seconds))
            print(f"p99 quiet {quiet[-1].p99_ms:.2f} ms, loaded {loaded[-1].p99_ms:.2f} ms", file=sys.stderr)
    quiet_p99_ms = statistics.median(each.p99_ms for each in quiet)
    loaded_p99_ms = statistics.median(each.p99_ms for each in loaded)
    return {
        "admin_quiet_p99": quiet_p99_ms,
        "admin_loaded_p50": statistics.median(each.p50_ms for each in loaded),
        "admin_loaded_p99": loaded_p99_ms,
        "admin_ratio": loaded_p99_ms / quiet_p99_ms,
    }


def make_topics(server: Server, count: int) -> None:
    """Makes the topics that `admin_calls` asks for."""
    for number in range(count):
        path = f"/admin/v2/persistent/public/default/many-{number}"
        urllib.request.urlopen(urllib.request.Request(server.web_url + path, method="PUT"), timeout=30).close()


@contextmanager
def admin_calls(server: Server, topics: int, in_flight: int) -> Iterator[None]:
    """Keeps so many admin calls on their way while the block runs."""
    port = server.web_url.rpartition(":")[2]
    options = ["--port", port, "--connections", str(in_flight), "--topics", str(topics)]
    command = [sys.executable, "-m", "bench.admin_load", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "all in flight\n"
        yield
        process.stdin.close()
        print(f"admin calls by status: {process.stdout.readline().strip()}", file=sys.stderr)
