"""The features' scenario: fan-out, many consumers, many topics, holes in what is acknowledged, delayed messages."""

import json
import subprocess
import sys
from typing import Any

from bench.driver import Outcome
from bench.loads import LOAD_TIMEOUT_SECONDS, NAMESPACE, cost, median_of, new_server
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

HOLES_SETTLE_SECONDS = {False: 2.0, True: 60.0}
"""How many seconds the server may take to put the holes on disk: False is for Magnetar, True for the peer (Apache took
43.5 s)."""

HOLES_SETTINGS = {"maxUnackedMessagesPerConsumer": "0", "maxUnackedMessagesPerSubscription": "0"}
"""Half of the messages stay unacknowledged, which is more than a consumer may hold by default."""


def features(product: Product, sizes: Sizes) -> Figures:
    figures: Figures = {}
    with new_server(product) as server:
        server.start()
        for key, mode in (("fan_out", "fan-out"), ("shared", "shared"), ("key_shared", "key-shared")):
            run(server, mode, f"warm-{mode}", sizes.deliveries)
            names = [f"{mode}-{number}" for number in range(sizes.runs)]
            runs = [Outcome(**run(server, mode, name, sizes.deliveries)) for name in names]
            figures[f"{key}_cpu"] = median_of(runs, cost)
    with new_server(product) as server:
        server.start()
        created = run(server, "topics", "many", sizes.topics)
        figures["topics_seconds"], figures["topic_memory"] = created["seconds"], created["kilobytes"]
    # Apache looks only 50,000 messages ahead when all are delayed by as much, so a million of them cannot be measured
    if product.is_peer:
        return figures | holes(product, sizes)
    with new_server(product) as server:
        server.start()
        figures["delayed_memory"] = run(server, "delayed", "delayed", sizes.delayed)["megabytes"]
    figures |= holes(product, sizes)
    return figures


def holes(product: Product, sizes: Sizes) -> Figures:
    with new_server(product, HOLES_SETTINGS) as server:
        server.start()
        settle = str(HOLES_SETTLE_SECONDS[product.is_peer])
        grown = run(server, "holes", "holes", sizes.holes, "--settle-seconds", settle)["megabytes"]
        server.kill()
        server.start()
        again = run(server, "left-over", "holes", sizes.holes)["messages"]
    return {"holes_memory": grown, "holes_again": again * 200 / sizes.holes}


def run(server: Server, mode: str, topic: str, messages: int, *more: str) -> dict[str, Any]:
    place = ["--url", server.broker_url, "--web-url", server.web_url, "--server-pid", str(server.pid)]
    what = ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages)]
    command = [sys.executable, "-m", "bench.official_features", mode, *place, *what, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_TIMEOUT_SECONDS, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
