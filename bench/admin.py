"""The admin scenario: what a thousand admin calls in flight do to the latency of publishing."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.loads import latency_at, new_server, publish, subscribe
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

IN_FLIGHT = 1000
PER_SECOND = 1000


def admin(product: Product, sizes: Sizes) -> Figures:
    """Measures the quiet and the loaded figures on the same server, one after the other."""
    with new_server(product) as server:
        server.start()
        make_topics(server, sizes.topics)
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        quiet = latency_at(server, PER_SECOND, sizes)
        with admin_calls(server, sizes.topics, IN_FLIGHT):
            loaded = latency_at(server, PER_SECOND, sizes)
    return {
        "admin_quiet_p99": quiet.p99_ms,
        "admin_loaded_p50": loaded.p50_ms,
        "admin_loaded_p99": loaded.p99_ms,
        "admin_ratio": loaded.p99_ms / quiet.p99_ms,
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
