"""How much each scenario of the bench does."""

from collections.abc import Callable
from dataclasses import dataclass

from compat_tests.products import Product


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each scenario does. A peer on a JVM gets `warm_up` messages before those that count."""

    unbatched: int = 300_000
    batched: int = 1_200_000
    wide_batched: int = 10_000_000
    runs: int = 3
    stored: int = 1_000_000
    tail: int = 100_000
    catch_up_batched: int = 600_000
    catch_up_unbatched: int = 200_000
    cold: int = 10_000_000
    latency_seconds: int = 15
    idle_seconds: float = 10.0
    bookie_adds: int = 300_000
    bookies_adds: int = 200_000
    spark: int = 1_000_080  # whole batches only
    deliveries: int = 50_000
    topics: int = 1000
    many_messages: int = 200_000
    holes: int = 200_000
    delayed: int = 500_000
    websocket: int = 100_000
    sockets: int = 1000
    transactions: int = 8_000
    open_transactions: int = 100_000
    transaction_records: int = 1_000_000
    connections: int = 10_000
    starts: int = 6
    rounds: int = 3
    frozen_seconds: float = 30.0
    moved_topics: int = 1000
    listed_topics: int = 100_000
    lookups: int = 3000
    scale_topics: tuple[int, ...] = (1_000, 10_000, 100_000, 600_000)
    scraped_topics: int = 100_000
    beside_topics: int = 10_000
    synchronous: int = 10_000


QUICK = Sizes(
    unbatched=100_000,
    batched=360_000,
    wide_batched=2_000_000,
    runs=1,
    stored=200_000,
    tail=30_000,
    catch_up_batched=120_000,
    catch_up_unbatched=50_000,
    cold=400_000,
    latency_seconds=4,
    idle_seconds=4.0,
    bookie_adds=60_000,
    bookies_adds=30_000,
    spark=200_040,
    deliveries=10_000,
    topics=200,
    many_messages=50_000,
    holes=20_000,
    delayed=100_000,
    websocket=20_000,
    sockets=1000,
    transactions=800,
    open_transactions=10_000,
    transaction_records=100_000,
    connections=1000,
    starts=2,
    rounds=1,
    frozen_seconds=8.0,
    moved_topics=200,
    listed_topics=5000,
    lookups=500,
    scale_topics=(1_000, 10_000),
    scraped_topics=10_000,
    beside_topics=2_000,
    synchronous=2_000,
)

Figures = dict[str, float]
Scenario = Callable[[Product, Sizes], Figures]


def up_to(topics: int) -> tuple[int, ...]:
    """Returns the numbers of topics that the scenario `scale` measures when `topics` is the largest of them."""
    return (*(total for total in Sizes().scale_topics if total < topics), topics)
