"""When a broker reports, what fits into a report, and what a report says about gains and losses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BundleStats, LocalBrokerData
from magnetar.server.load.report_rules import REPORT_BYTES_MAX, Reason, fitted, why_write, with_bundles
from tests.server.load.clusters import bundle_name, report

SETTINGS = LoadSettings()
BASE = report(bundles={bundle_name("t/n", number): BundleStats(100, 1000, 100, 1000, topics=1) for number in range(10)})


def changed(**values: float) -> LocalBrokerData:
    return replace(BASE, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (BASE, None),
        (changed(max_resource_usage=0.1), None),
        (changed(max_resource_usage=0.11), Reason.CHANGE),
        (changed(msg_rate_in=BASE.msg_rate_in * 1.19), None),
        (changed(msg_rate_in=BASE.msg_rate_in * 1.21), Reason.CHANGE),
        (changed(msg_throughput_out=0), Reason.CHANGE),
        (changed(bundle_count=11), None),
        (changed(bundle_count=12), Reason.CHANGE),
    ],
)
def test_a_report_is_written_when_something_has_changed_by_more_than_a_tenth(
    now: LocalBrokerData, reason: Reason | None
) -> None:
    assert why_write(BASE, 60, now, SETTINGS) is reason


def test_an_old_report_is_written_even_if_nothing_has_changed() -> None:
    assert why_write(BASE, 900, BASE, SETTINGS) is None
    assert why_write(BASE, 900.1, BASE, SETTINGS) is Reason.AGE


def test_from_nothing_to_something_is_a_change() -> None:
    assert why_write(report(), 1, changed(), SETTINGS) is Reason.CHANGE
    assert why_write(report(), 1, report(), SETTINGS) is None


NAMES = [bundle_name("t/n", number) for number in range(6)]


@given(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.booleans()), max_size=12))
def test_gains_and_losses_are_the_difference_to_what_was_written(steps: list[tuple[set[str], bool]]) -> None:
    now = report()
    written: set[str] = set()
    for names, is_written in steps:
        now = with_bundles(now, {name: BundleStats(topics=1) for name in sorted(names)})
        assert set(now.gains) >= names - written
        assert set(now.gains) <= names
        assert set(now.losses) >= written - names
        assert not set(now.losses) & names
        assert (now.bundle_count, now.topics) == (len(names), len(names))
        if is_written:
            written = names
            now = replace(now, gains=(), losses=())


def test_a_report_stays_below_the_limit_of_the_store_and_keeps_what_weighs() -> None:
    namespace = "a-tenant-with-a-long-name/a-namespace-with-a-long-name"
    stats = {
        bundle_name(namespace, number): BundleStats(number, number, 1.23456, 2.3, topics=2) for number in range(4000)
    }
    stats |= {bundle_name(f"{namespace}-idle", number): BundleStats() for number in range(4000)}
    kept = fitted(stats)
    value = with_bundles(report(), kept).to_bytes()
    assert len(value) < 1_000_000
    assert len(value) > REPORT_BYTES_MAX / 2
    assert bundle_name(namespace, 3999) in kept
    assert not any("idle" in name for name in kept)
    few = {name: stats[name] for name in list(stats)[:3]}
    assert fitted(few) is few
