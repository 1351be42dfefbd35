"""Bookies that failed often get no new ledgers for a while."""

from magnetar.storage.ledger.bookie_health import BookieHealth
from magnetar.storage.ledger.client_config import LedgerConfig
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, answered, members, new_ledger
from tests.storage.ledger.virtual_loop import run


def test_many_failures_within_the_interval_mean_quarantine_until_it_is_over() -> None:
    health = BookieHealth(errors_max=3, interval_sec=10, quarantine_sec=100)
    assert [health.failed("b", now) for now in (0, 4, 9)] == [False, False, True]
    assert health.quarantined(50) == {"b"}
    assert health.quarantined(109) == frozenset()
    assert not health.failed("b", 110), "counting begins anew"


def test_failures_far_apart_and_of_different_bookies_do_not_add_up() -> None:
    health = BookieHealth(errors_max=3, interval_sec=10, quarantine_sec=100)
    assert not any(health.failed("b", now) for now in (0, 6, 12, 18))
    assert not any(health.failed(name, 20) for name in "cde")
    assert health.quarantined(20) == frozenset()


def test_no_number_of_failures_counts_when_it_is_turned_off() -> None:
    health = BookieHealth(errors_max=0)
    assert not any(health.failed("b", 0) for _ in range(100))


def test_a_recent_failure_is_remembered_for_the_order_of_reads() -> None:
    health = BookieHealth(recent_sec=60)
    health.failed("b", 100)
    assert health.failed_lately("b", 160)
    assert not health.failed_lately("b", 161)
    assert not health.failed_lately("c", 100)


def test_a_client_puts_new_ledgers_elsewhere_after_a_bookie_failed_it_often() -> None:
    async def story() -> None:
        scene = Scene(4)
        client = scene.client("w", LedgerConfig(add_entry_timeout_sec=5, bookie_errors_max=2))
        bad = "b0"
        failures = 0
        scene.cluster.bookies[bad].network = LinkState.RESET
        while failures < 2:
            handle, writer = await new_ledger(client, (2, 2, 2))
            failures += bad in members(handle)
            writer.append(b"entry")
            await answered(writer)
            assert writer.acked == [0]
        for _ in range(30):
            handle, _ = await new_ledger(client, (3, 3, 3))
            assert bad not in members(handle)
        handle, _ = await new_ledger(client, (4, 4, 3))
        assert bad in members(handle), "better a bookie in quarantine than none"

    run(story())
