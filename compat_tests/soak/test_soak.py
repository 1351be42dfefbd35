"""A short soak with a few kills passes, and the judge notices each kind of fault that it is there for."""

import random
from pathlib import Path

import pytest

from compat_tests.python.receipts import ProducerRecord, Stored
from compat_tests.soak.claims import (
    Delivery,
    Order,
    Outage,
    SubscriptionRecord,
    log_complaints,
    run_complaints,
    subscription_complaints,
)
from compat_tests.soak.memory import GROWTH_MAX_MB, Memory, Sample
from compat_tests.soak.runner import Soak

LOAD_MINUTES = 0.4
KILL_EVERY_SECONDS = (6.0, 7.0)
FEATURES = ("kills", "acked", "refused", "seeks", "sent again", "compactions", "policies changed", "non-persistent")


@pytest.mark.slow
def test_mixed_features_and_kills_lose_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    verdict = Soak(tmp_path, LOAD_MINUTES, seed, KILL_EVERY_SECONDS).run()
    assert not verdict.complaints, f"seed {seed}:\n" + "\n".join(verdict.complaints)
    assert {name: verdict.counts.get(name, 0) for name in FEATURES if not verdict.counts.get(name)} == {}
    assert verdict.counts["stored"] >= verdict.counts["receipts"]


LOG = [Stored("p/a", 0, (1, 0, -1)), Stored("p/b", 0, (1, 1, -1)), Stored("p/a", 1, (1, 2, -1))]


def record_of(order: Order, *indexes: int) -> SubscriptionRecord:
    """Returns a record in which these log entries were delivered one a second, from second 1 on."""
    return SubscriptionRecord("s", order, [Delivery(1.0 + at, LOG[index]) for at, index in enumerate(indexes)])


def broken(found: list[str]) -> set[str]:
    """Returns the numbers of the claims that are broken."""
    return {text.partition(" ")[0] for text in found}


@pytest.mark.parametrize(
    ("order", "indexes", "expected"),
    [
        (Order.TOPIC, (0, 1, 2, 1, 0), set()),
        (Order.TOPIC, (1, 0, 2), {"(9)"}),
        (Order.KEY, (1, 0, 2), set()),
        (Order.KEY, (2, 0, 1), {"(9)"}),
        (Order.NONE, (2, 1, 0), set()),
    ],
)
def test_order_is_judged_by_topic_or_by_key(order: Order, indexes: tuple[int, ...], expected: set[str]) -> None:
    everything = {each.place for each in LOG}
    assert broken(subscription_complaints(record_of(order, *indexes), LOG, everything, [])) == expected


def test_an_unacknowledged_message_must_come_in_the_end_and_an_acknowledged_one_must_not() -> None:
    record = record_of(Order.NONE, 0, 1, 2)
    record.acks.individual[LOG[0].place] = 5.0
    assert broken(subscription_complaints(record, LOG, {LOG[1].place, LOG[2].place}, [])) == set()
    assert broken(subscription_complaints(record, LOG, {LOG[1].place}, [])) == {"(4)"}
    assert broken(subscription_complaints(record, LOG, {each.place for each in LOG}, [])) == {"(5)"}


def test_an_ack_may_be_lost_by_a_kill_soon_after_it_and_not_by_a_later_one() -> None:
    for killed_at, expected in ((6.0, set()), (9.0, {"(10)", "(5)"})):
        record = record_of(Order.NONE, 0, 1, 2)
        record.acks.individual[LOG[0].place] = 5.0
        record.deliveries.append(Delivery(killed_at + 2, LOG[0]))
        everything = {each.place for each in LOG}
        found = subscription_complaints(record, LOG, everything, [Outage(killed_at, killed_at + 1)])
        assert broken(found) == expected


def test_what_is_not_in_the_log_must_not_be_delivered() -> None:
    record = record_of(Order.NONE, 0, 1, 2)
    record.deliveries.append(Delivery(9.0, Stored("p/a", 1, (1, 3, -1))))
    assert broken(subscription_complaints(record, LOG, {each.place for each in LOG}, [])) == {"(8)"}


def test_only_what_had_no_receipt_is_stored_again_and_with_deduplication_nothing() -> None:
    log = [Stored("p", at, (1, index, -1)) for index, at in enumerate((0, 1, 1, 2))]
    answered_late = {"p": ProducerRecord("p", 3, [(1, 0, -1), (1, 2, -1), (1, 3, -1)])}
    answered_before = {"p": ProducerRecord("p", 3, [(1, 0, -1), (1, 1, -1), (1, 3, -1)])}
    assert log_complaints(log, answered_late, 1, deduplicated=False) == []
    assert broken(log_complaints(log, answered_before, 1, deduplicated=False)) == {"(7)"}
    assert broken(log_complaints(log, answered_late, 1, deduplicated=True)) == {"(2)"}
    duplicate = {"p": ProducerRecord("p", 1, [(-1, -1, -1)])}
    assert log_complaints(log[:1], duplicate, 1, deduplicated=True) == []
    assert broken(log_complaints([], duplicate, 1, deduplicated=True)) == {"(3)"}


def test_a_reader_gets_every_message_once() -> None:
    places = [each.place for each in LOG]
    assert run_complaints("r", places[1:], LOG, 1) == []
    assert broken(run_complaints("r", [places[0], places[2]], LOG, 0)) == {"(8)"}
    assert broken(run_complaints("r", [*places, (1, 9, -1)], LOG, 0)) == {"(8)"}


@pytest.mark.parametrize(("grown", "expected"), [(GROWTH_MAX_MB - 1, set()), (GROWTH_MAX_MB + 1, {"(13)"})])
def test_memory_may_grow_by_what_caches_may_take(grown: float, expected: set[str]) -> None:
    samples = [Sample(0, 20.0 + at, 50.0 + (grown if at > 10 else 0)) for at in range(20)]
    assert broken(Memory(samples).complaints()) == expected
