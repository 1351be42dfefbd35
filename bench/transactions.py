"""The scenario of transactions: `pulsar-perf transaction` with its default settings, one thread that consumes,
publishes and commits.

The rate is the one that the program says, from its first transaction on, when its JVM still compiles: each of the first
700 transactions costs the program about 3.5 ms of CPU, each of the next 700 about 2.4 ms, and each after the 2,000th
1.2 ms, whoever the server is. The program and the server share the machine's cores, so this start makes all servers
look alike. A run is therefore so long that the start, 2.5 s of CPU, is a small part of it: a tenth of what both use in
8,000 transactions. It was a fifth in 4,000.
"""

import re
import statistics
import subprocess
import tempfile

from bench.driver import Stopwatch
from bench.loads import LOAD_TIMEOUT_SECONDS, NAMESPACE, new_server, publish, subscribe
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.java.client_jars import pulsar_perf
from compat_tests.products import Product

RATE = re.compile(r"(\d+) transaction executed --- +([\d.]+) transaction/s.*?(\d+) transaction end successfully")
"""What the program says at its end."""
LARGE = 50
"""How many messages a large transaction consumes and publishes."""
SMALL_FOR_ONE_LARGE = 8
"""For so many small transactions of a run, one large transaction is run. They take about the same time."""
SPARE_MESSAGES = 1_000
"""The program asks for more messages than its transactions acknowledge, and waits when there are none."""
ON = {"transactionCoordinatorEnabled": "true"}


def transactions(product: Product, sizes: Sizes) -> Figures:
    """All from one server. The first run of each kind warms up and does not count."""
    with new_server(product, ON) as server:
        server.start()
        small = [run(server, f"small-{number}", sizes.transactions, 1) for number in range(sizes.runs + 1)]
        fewer = sizes.transactions // SMALL_FOR_ONE_LARGE
        large = [run(server, f"large-{number}", fewer, LARGE) for number in range(sizes.runs + 1)]
    figures: Figures = {}
    for name, runs in (("txn", small[1:]), ("txn_large", large[1:])):
        figures[f"{name}_rate"] = statistics.median(rate for rate, _ in runs)
        figures[f"{name}_cpu"] = statistics.median(cpu for _, cpu in runs)
    return figures


def run(server: Server, topic: str, count: int, messages: int) -> tuple[float, float]:
    """Runs the program. Returns transactions a second, and the milliseconds of the server's CPU for each."""
    source, target = f"{NAMESPACE}/{topic}-in", f"{NAMESPACE}/{topic}-out"
    subscribe(server, f"{topic}-in", "sub")
    publish(server, f"{topic}-in", count * messages + SPARE_MESSAGES, size=100)
    options = ["-u", server.broker_url, "-au", server.web_url, "--topics-c", source, "--topics-p", target]
    options += ["-ntxn", str(count), "-nmp", str(messages), "-nmc", str(messages), "-threads", "1", "-sp", "Earliest"]
    command = pulsar_perf("transaction", *options)
    watch = Stopwatch(server.pid)
    # The program leaves a file of latencies where it runs.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=LOAD_TIMEOUT_SECONDS, check=True
        )
    outcome = watch.outcome(count)
    said = RATE.search(done.stdout)
    assert said is not None, done.stdout[-2000:]
    assert int(said[1]) == int(said[3]) == count, said[0]
    return float(said[2]), outcome.server_cpu_seconds / count * 1000
