"""The scenario of more brokers: what a message costs with one, two and four brokers over the same three bookies.

A machine with two cores cannot show that four brokers do four times the work. It can show what that depends on: every
broker publishes to a topic of its own at the same time, the CPU time of a message stays what it is with one broker, and
it is spent in the brokers that own the topics and in the bookies, of which a cluster has as many as it likes. The one
process that all brokers share, the metadata server, has no part in publishing.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from bench.driver import Outcome
from bench.loads import LOAD_TIMEOUT_SECONDS, NAMESPACE
from bench.our_cluster import OurCluster
from bench.process_stats import cpu_seconds
from bench.sizes import Figures, Sizes
from compat_tests import wire
from compat_tests.products import Product

BROKERS = (1, 2, 4)
BOOKIES = 3
SETTLE_SECONDS = 2.0
MILLION = 1_000_000


def brokers(product: Product, sizes: Sizes) -> Figures:
    """Measures our clusters. Apache's is not measured: four of its brokers do not fit on such a machine."""
    if product.is_peer:
        return {}
    figures: Figures = {}
    for number in BROKERS:
        folder = Path(tempfile.mkdtemp(prefix="bench-brokers-"))
        made = OurCluster(folder, brokers=number, bookies=BOOKIES)
        try:
            made.start()
            figures |= measured(made, number, sizes)
            made.close()
            made.assert_no_errors()
        finally:
            made.close()
            shutil.rmtree(folder, ignore_errors=True)
    last = BROKERS[-1]
    return figures | {"brokers_linear": figures["brokers_cpu_1"] / figures[f"brokers_cpu_{last}"]}


def measured(made: OurCluster, number: int, sizes: Sizes) -> Figures:
    """Publishes as many messages to each broker, to all brokers at once, after a warm-up."""
    topics = owned_topics(made, number)
    messages = sizes.unbatched // number
    publish_to_each(made, topics, messages // 4)
    time.sleep(SETTLE_SECONDS)
    before = cpu_by_process(made)
    outcomes = publish_to_each(made, topics, messages)
    used = {name: seconds - before[name] for name, seconds in cpu_by_process(made).items()}
    published = sum(each.messages for each in outcomes)
    of_brokers = [used[f"broker-{index}"] for index in range(number)]
    return {
        f"brokers_cpu_{number}": sum(of_brokers) / published * MILLION,
        f"brokers_all_cpu_{number}": sum(used.values()) / published * MILLION,
        f"brokers_busiest_{number}": max(of_brokers) / sum(of_brokers) * 100,
        f"brokers_metadata_{number}": used["metadata"] / published * MILLION,
    }


def cpu_by_process(made: OurCluster) -> dict[str, float]:
    """Returns the CPU seconds of each process so far."""
    return {name: cpu_seconds(pid, with_descendants=False) for name, pid in made.named_pids().items()}


def owned_topics(made: OurCluster, number: int) -> list[str]:
    """Returns for each broker the name of a topic that it owns, with a subscription."""
    owned: dict[int, str] = {}
    for index in count():
        name = f"of-a-broker-{index}"
        owner = made.owner(f"{NAMESPACE}/{name}")
        if owner not in owned:
            owned[owner] = name
            with wire.WireClient(made.port_of(owner)) as client:
                client.subscribe(f"{NAMESPACE}/{name}", "bench")
        if len(owned) == number:
            break
    return [owned[broker] for broker in range(number)]


def publish_to_each(made: OurCluster, topics: list[str], messages: int) -> list[Outcome]:
    """Runs one driver for each broker, all at the same time."""
    drivers = []
    for broker, topic in enumerate(topics):
        command = [sys.executable, "-m", "bench.driver", "publish", "--port", str(made.port_of(broker))]
        command += ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages), "--batch", "1"]
        command += ["--server-pid", str(made.named_pids()[f"broker-{broker}"])]
        drivers.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    outcomes = []
    for driver in drivers:
        output, _ = driver.communicate(timeout=LOAD_TIMEOUT_SECONDS)
        if driver.returncode:
            raise subprocess.CalledProcessError(driver.returncode, driver.args)
        outcomes.append(Outcome(**json.loads(output.splitlines()[-1])))
    return outcomes
