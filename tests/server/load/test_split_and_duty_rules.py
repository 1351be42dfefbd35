"""Which bundles are split, and when the leader does what."""

from dataclasses import replace

import pytest

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.duty_rules import REPORTS_PAUSE_SECONDS, Duty, Timetable, worth_writing
from magnetar.server.load.load_view import LoadView
from magnetar.server.load.split_rules import too_large, within_limit
from tests.server.load.clusters import MB, broker_name, bundle_name, report, view_of

SETTINGS = LoadSettings()
ONE = bundle_name("t/n", 0)


def with_stats(stats: BundleStats, samples: int = 1) -> LoadView:
    view = view_of({broker_name(1): report()})
    for number in range(samples):
        view.set_report(broker_name(0), report(bundles={ONE: stats}, update=number))
    return view


@pytest.mark.parametrize(
    ("stats", "is_split"),
    [
        (BundleStats(topics=1000), False),
        (BundleStats(topics=1001), True),
        (BundleStats(topics=2, consumers=500, producers=500), False),
        (BundleStats(topics=2, consumers=500, producers=501), True),
        (BundleStats(topics=1, consumers=5000, producers=5000), False),
        (BundleStats(15_000, 0, 15_000, 0, topics=2), False),
        (BundleStats(15_000, 0, 15_001, 0, topics=2), True),
        (BundleStats(1, 60 * MB, 1, 40 * MB, topics=2), False),
        (BundleStats(1, 60 * MB, 1, 41 * MB, topics=2), True),
        (BundleStats(20_000, 60 * MB, 20_000, 60 * MB, topics=1), False),
    ],
)
def test_a_bundle_of_several_topics_over_a_limit_is_split(stats: BundleStats, is_split: bool) -> None:
    assert too_large(with_stats(stats), SETTINGS) == ([ONE] if is_split else [])


def test_a_peak_of_traffic_splits_nothing() -> None:
    view = with_stats(BundleStats(10, 0, 10, 0, topics=2), samples=99)
    view.set_report(broker_name(0), report(bundles={ONE: BundleStats(100_000, 0, 100_000, 0, topics=2)}, update=1000))
    assert not too_large(view, SETTINGS)


def test_a_bundle_is_not_split_twice_because_of_an_old_report() -> None:
    view = with_stats(BundleStats(topics=5000))
    view.forget_bundle(ONE)
    view.split_s[ONE] = 10.0
    assert not too_large(view, SETTINGS)
    view.expire(909.0, 1800, 900)
    assert not too_large(view, SETTINGS)
    view.expire(911.0, 1800, 900)
    assert too_large(view, SETTINGS) == [ONE]


def test_the_bundles_of_health_checks_are_never_split() -> None:
    own = f"pulsar/{broker_name(0)}/0x00000000_0xffffffff"
    assert not too_large(view_of({broker_name(0): report(bundles={own: BundleStats(topics=9999)})}), SETTINGS)


def test_a_namespace_gets_no_more_bundles_than_allowed() -> None:
    bundles = [bundle_name("t/a", 1), bundle_name("t/a", 2), bundle_name("t/b", 1), bundle_name("t/c", 1)]
    assert within_limit(bundles, {"t/a": 127, "t/b": 128}, SETTINGS) == bundles[:1]


def test_duties_come_in_their_intervals() -> None:
    table = Timetable(0.0)
    table.took_over(0.0)
    assert table.seconds_left(0.0, SETTINGS) == REPORTS_PAUSE_SECONDS
    assert table.due(0.5, SETTINGS) == []
    assert table.due(1.0, SETTINGS) == [Duty.LEARN, Duty.SPLIT]
    table.done(Duty.LEARN, 1.0)
    table.done(Duty.SPLIT, 1.0)
    assert table.due(59.0, SETTINGS) == []
    assert table.seconds_left(59.0, SETTINGS) == 1.0
    assert table.due(60.0, SETTINGS) == [Duty.SHED]
    table.done(Duty.SHED, 60.0)
    table.reports_changed()
    assert table.due(900.0, SETTINGS) == [Duty.LEARN, Duty.SPLIT, Duty.SHED, Duty.WRITE]


def test_a_report_that_changes_during_a_duty_is_looked_at_again() -> None:
    table = Timetable(0.0)
    table.took_over(0.0)
    assert Duty.SPLIT in table.due(1.0, SETTINGS)
    table.reports_changed()
    table.done(Duty.SPLIT, 5.0)
    assert Duty.SPLIT not in table.due(5.5, SETTINGS)
    assert Duty.SPLIT in table.due(6.0, SETTINGS)


def test_what_is_turned_off_is_not_done() -> None:
    table = Timetable(0.0)
    table.took_over(0.0)
    off = replace(SETTINGS, load_balancer_shedding_enabled=False, load_balancer_auto_bundle_split_enabled=False)
    assert table.due(60.0, off) == [Duty.LEARN]
    table.reports_changed()
    assert table.due(10_000.0, replace(SETTINGS, load_balancer_enabled=False)) == []
    assert table.seconds_left(10_000.0, replace(SETTINGS, load_balancer_enabled=False)) is None


def test_the_busiest_bundles_are_written_ten_for_each_broker() -> None:
    stats = {bundle_name("t/n", number): BundleStats(1, number, 1, number, topics=1) for number in range(50)}
    view = view_of({broker_name(0): report(bundles=stats), broker_name(1): report()})
    assert set(worth_writing(view, SETTINGS)) == {bundle_name("t/n", number) for number in range(30, 50)}
    everything = replace(SETTINGS, load_balancer_max_number_of_bundles_in_bundle_load_report=0)
    assert len(worth_writing(view, everything)) == 50
