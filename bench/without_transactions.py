"""The scenario of topics without transactions: what their messages cost a server with transactions, over what they cost
a server without.

The difference is a few percent at most, and two equal servers differ by more at any moment, because a journal's batches
grow and shrink, the machine has other work, and no two processes have their memory laid out alike. So two servers take
short turns, the second one first in every other pair of turns, and the figure is the median of what the pairs of turns
say; and there are several pairs of servers. Equal servers then differ by about a percent, even on a busy machine.
"""

import statistics
import sys
from collections.abc import Callable
from typing import NamedTuple

from bench.driver import Connection, Outcome, consume, publish
from bench.frames import CONSUMER_ID, PRODUCER_ID, Block, build_block
from bench.loads import NAMESPACE, new_server, subscribe
from bench.process_stats import cpu_clock_seconds
from bench.sizes import Figures, Sizes
from bench.transactions import ON
from compat_tests.harness import Server
from compat_tests.products import Product

OFF = {"transactionCoordinatorEnabled": "false"}
PAIRS_OF_SERVERS = 2
"""How many pairs of servers there are for each of the runs that other scenarios make."""
WARM_TURNS, TURNS = 5, 40
TURN_MESSAGES, MESSAGE_BYTES = 2_000, 1_024
WINDOW = 1_000
TOPIC = f"{NAMESPACE}/plain"


class Turn(NamedTuple):
    """The CPU seconds of a server's turn, in which all messages are published and then consumed."""

    published: float
    consumed: float


def topics_without_transactions(product: Product, sizes: Sizes) -> Figures:
    """Returns the CPU of publishing and of consuming plain messages on a server with transactions, over that on one
    without."""
    ratios: list[Turn] = []
    for number in range(PAIRS_OF_SERVERS * sizes.runs):
        of_pair = ratios_of_servers(product)
        ratios += of_pair
        published, consumed = _medians(of_pair)
        print(f"  servers {number}: publishing {published:.3f}, consuming {consumed:.3f}", file=sys.stderr, flush=True)
    published, consumed = _medians(ratios)
    return {"txn_on_publish_cpu": published, "txn_on_consume_cpu": consumed}


def ratios_of_servers(product: Product) -> list[Turn]:
    """Starts a server with transactions and one without. Returns the quotient of the CPU seconds of each pair of
    turns."""
    block = build_block(MESSAGE_BYTES, 1)
    with new_server(product, ON) as with_them, new_server(product, OFF) as without:
        servers = [with_them, without]
        for server in servers:
            server.start()
            subscribe(server, "plain", "bench")
        ratios: list[Turn] = []
        for number in range(WARM_TURNS + TURNS):
            turns = {server: turn(server, block) for server in (servers if number % 2 else reversed(servers))}
            on, off = turns[with_them], turns[without]
            ratios.append(Turn(on.published / off.published, on.consumed / off.consumed))
    return ratios[WARM_TURNS:]


def turn(server: Server, block: Block) -> Turn:
    """Publishes messages and consumes them. The connections are new, because a server sends PING to an old one."""
    publishing = Connection(server.broker_port)
    publishing.client.open_producer(TOPIC, PRODUCER_ID)
    publishing.go()
    published = cost(server, lambda: publish(publishing, block, TURN_MESSAGES, WINDOW, server.pid))
    publishing.client.close()
    consuming = Connection(server.broker_port)
    consuming.client.subscribe(TOPIC, "bench", CONSUMER_ID)
    consuming.go()
    consumed = cost(server, lambda: consume(consuming, block, TURN_MESSAGES, server.pid))
    consuming.client.close()
    return Turn(published, consumed)


def cost(server: Server, load: Callable[[], Outcome]) -> float:
    """Returns the CPU seconds of a server under a load. The load's own count of them is too coarse for a turn."""
    before = cpu_clock_seconds(server.pid)
    load()
    return cpu_clock_seconds(server.pid) - before


def _medians(turns: list[Turn]) -> Turn:
    return Turn(*(statistics.median(each) for each in zip(*turns, strict=True)))
