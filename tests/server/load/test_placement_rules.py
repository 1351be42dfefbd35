"""Placement: which broker gets a bundle, on chosen clusters and on random histories."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.config.load_settings import STRATEGIES, LoadSettings
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.bundle_averages import BundleData
from magnetar.server.load.load_view import PREALLOCATION_SECONDS_MAX, LoadView
from magnetar.server.load.placement_rules import ClusterRules, Placer, allowed, version_key
from tests.rounds import rounds
from tests.server.load.clusters import (
    NO_RULES,
    SETTINGS,
    broker_name,
    bundle_name,
    isolation,
    placer_of,
    report,
    view_of,
)


def place(
    view: LoadView,
    bundle: str,
    config: LoadSettings = SETTINGS,
    rules: ClusterRules = NO_RULES,
    *,
    seed: int = 1,
    now_s: float = 0.0,
    placer: Placer | None = None,
) -> str | None:
    return (placer or placer_of(config)).place(bundle, view, config, rules, random=Random(seed), now_s=now_s)


def cluster(count: int = 3, cpu: float = 0.1) -> LoadView:
    return view_of({broker_name(number): report(cpu) for number in range(count)})


def test_the_bundles_of_a_namespace_are_spread_evenly() -> None:
    view = cluster(3)
    for number in range(9):
        place(view, bundle_name("t/n", number), seed=number)
    assert [view.brokers[broker_name(number)].bundles_of("t/n") for number in range(3)] == [3, 3, 3]


def test_without_even_distribution_the_least_message_rate_decides_but_the_system_namespace_is_spread() -> None:
    config = replace(SETTINGS, load_balancer_distribute_bundles_evenly_enabled=False)
    busy = {bundle_name("t/other", 1): BundleStats(10_000, 1, 10_000, 1, topics=1)}
    view = view_of({broker_name(0): report(bundles=busy), broker_name(1): report()})
    assert {place(view, bundle_name("t/n", number), config) for number in range(4)} == {broker_name(1)}
    assert {place(view, bundle_name("pulsar/system", number), config) for number in range(2)} == set(view.brokers)


def test_a_bundle_goes_to_the_same_broker_until_its_report_names_it() -> None:
    view = cluster(4)
    bundle = bundle_name("t/n", 0)
    first = place(view, bundle, seed=1)
    assert first is not None
    assert {place(view, bundle, seed=seed) for seed in range(20)} == {first}
    view.set_report(first, report(bundles={bundle: BundleStats(topics=1)}))
    assert view.preallocated_to(bundle) is None
    view.keep_brokers([name for name in view.brokers if name != first])
    assert place(view, bundle) not in (None, first)


def test_what_was_promised_to_a_dead_broker_is_placed_anew() -> None:
    view = cluster(2)
    bundle = bundle_name("t/n", 0)
    first = place(view, bundle)
    assert view.keep_brokers([name for name in view.brokers if name != first]) == {first}
    assert place(view, bundle) not in (None, first)


def test_a_promise_that_was_never_used_ends() -> None:
    view = cluster(2)
    first = place(view, bundle_name("t/n", 0), now_s=100)
    assert first is not None
    view.expire(100 + PREALLOCATION_SECONDS_MAX, 0, 0)
    assert view.brokers[first].preallocated
    view.expire(101 + PREALLOCATION_SECONDS_MAX, 0, 0)
    assert not view.brokers[first].preallocated


def test_a_noted_destination_counts_once_and_for_its_own_bundle_only() -> None:
    view = cluster(3)
    bundle, same_range = bundle_name("t/n", 0), bundle_name("t/other", 0)
    view.note_destination(bundle, broker_name(2))
    view.set_report(broker_name(2), report(bundles={bundle_name("t/other", 7): BundleStats(topics=1)}))
    assert place(view, same_range) != broker_name(2)
    assert place(view, bundle) == broker_name(2)
    view.release(bundle)
    busy = {bundle_name("t/n", number): BundleStats(topics=1) for number in range(5, 8)}
    view.set_report(broker_name(2), report(bundles=busy))
    assert place(view, bundle) != broker_name(2)


def test_a_destination_takes_the_place_of_an_earlier_promise() -> None:
    view = cluster(2)
    bundle = bundle_name("t/n", 0)
    first = place(view, bundle)
    other = ({*view.brokers} - {first}).pop()
    view.note_destination(bundle, other)
    assert place(view, bundle) == other
    assert [broker for broker, load in view.brokers.items() if load.preallocated] == [other]


def test_stored_averages_do_not_replace_a_longer_history() -> None:
    bundle = bundle_name("t/n", 0)
    view = LoadView()
    for number in range(20):
        view.set_report(broker_name(0), report(bundles={bundle: BundleStats(5, 5, 5, 5)}, update=number))
    stored = BundleData.assuming(BundleStats())
    for _ in range(15):
        stored.add(BundleStats(9_000, 1, 9_000, 1))
    view.learn(bundle, stored)
    assert view.bundles[bundle].long_term.message_rate == pytest.approx(10)
    for _ in range(10):
        stored.add(BundleStats(9_000, 1, 9_000, 1))
    view.learn(bundle, stored)
    assert view.bundles[bundle].long_term.message_rate > 10_000
    assert view.brokers[broker_name(0)].average.long_message_rate > 10_000


def test_a_destination_that_is_gone_does_not_count() -> None:
    view = cluster(2)
    view.note_destination(bundle_name("t/n", 0), broker_name(9))
    assert place(view, bundle_name("t/n", 0)) in view.brokers


def test_an_overloaded_broker_gets_nothing_while_another_is_not() -> None:
    view = view_of({broker_name(0): report(0.95), broker_name(1): report(0.5), broker_name(2): report(0.86)})
    chosen = {place(view, bundle_name("t/n", number), seed=number) for number in range(9)}
    assert chosen == {broker_name(1)}


def test_overloaded_brokers_still_share_evenly_when_all_are() -> None:
    view = cluster(3, cpu=0.99)
    for number in range(12):
        place(view, bundle_name("t/n", number), seed=number)
    assert [view.brokers[broker_name(number)].bundles_of("t/n") for number in range(3)] == [4, 4, 4]


def test_brokers_with_very_many_topics_get_nothing_while_another_has_room() -> None:
    view = view_of({broker_name(0): report(topics=50_001), broker_name(1): report(topics=50_000)})
    assert {place(view, bundle_name("t/n", number)) for number in range(5)} == {broker_name(1)}
    view = view_of({broker_name(0): report(topics=60_000), broker_name(1): report(topics=70_000)})
    assert place(view, bundle_name("t/n", 0)) is not None


def test_a_broker_of_another_load_manager_gets_nothing_unless_there_is_no_other() -> None:
    stranger = replace(report(), load_manager="x.ExtensibleLoadManagerImpl")
    view = view_of({broker_name(0): stranger, broker_name(1): report()})
    assert {place(view, bundle_name("t/n", number)) for number in range(5)} == {broker_name(1)}
    assert place(view_of({broker_name(0): stranger}), bundle_name("t/n", 0)) == broker_name(0)


def test_later_versions_are_preferred_when_that_is_asked_for() -> None:
    config = replace(SETTINGS, prefer_later_versions=True)
    view = view_of(
        {broker_name(number): report(version=version) for number, version in enumerate(("4.0.6", "4.0.10", "4.0.9"))}
    )
    assert {place(view, bundle_name("t/n", number), config) for number in range(4)} == {broker_name(1)}
    view.set_report(broker_name(0), report(version="unreadable"))
    chosen = {place(view, bundle_name("t/m", number), config, seed=number) for number in range(9)}
    assert chosen == set(view.brokers), "a version that cannot be read turns the preference off"


@pytest.mark.parametrize(
    ("older", "newer"),
    [("4.0.9", "4.0.10"), ("4.0.0-rc-1", "4.0.0"), ("4.0.0-alpha.2", "4.0.0-alpha.10"), ("3.9.9", "4.0.0")],
)
def test_semantic_versions_have_an_order(older: str, newer: str) -> None:
    first, second = version_key(older), version_key(newer)
    assert first is not None
    assert second is not None
    assert first < second


def test_an_isolated_namespace_stays_on_its_primaries_and_they_serve_nobody_else() -> None:
    rules = ClusterRules(isolation(p=([r"iso/.*"], [r"b0\..*"], [r"b1\..*"], 1)))
    view = cluster(3)
    assert {place(view, bundle_name("iso/n", number), rules=rules) for number in range(4)} == {broker_name(0)}
    others = {place(view, bundle_name("t/n", number), rules=rules, seed=number) for number in range(9)}
    assert others == {broker_name(1), broker_name(2)}


def test_secondaries_help_when_too_few_primaries_are_there() -> None:
    rules = ClusterRules(isolation(p=([r"iso/.*"], [r"b0\..*"], [r"b1\..*"], 1)))
    view = view_of({broker_name(1): report(), broker_name(2): report()})
    assert {place(view, bundle_name("iso/n", number), rules=rules) for number in range(4)} == {broker_name(1)}
    two = ClusterRules(isolation(p=([r"iso/.*"], [r"b0\..*"], [r"b1\..*"], 2)))
    assert allowed(bundle_name("iso/n", 0), cluster(3), two) == {broker_name(0), broker_name(1)}


def test_an_isolated_namespace_without_any_of_its_brokers_is_not_placed() -> None:
    rules = ClusterRules(isolation(p=([r"iso/.*"], [r"b7\..*"], [], 1)))
    assert place(cluster(3), bundle_name("iso/n", 0), rules=rules) is None


def test_the_first_policy_that_names_a_namespace_counts_and_a_pattern_that_is_none_matches_nothing() -> None:
    rules = ClusterRules(
        isolation(
            broken=([r"((", r"t/n"], [r"(b0", r"b1\..*"], [], 1),
            later=([r"t/.*"], [r"b2\..*"], [], 1),
        )
    )
    view = cluster(3)
    assert place(view, bundle_name("t/n", 0), rules=rules) == broker_name(1)
    assert place(view, bundle_name("t/m", 0), rules=rules) == broker_name(2)


def test_a_promise_does_not_outlive_the_right_to_the_bundle() -> None:
    view = cluster(3)
    bundle = bundle_name("iso/n", 0)
    first = place(view, bundle)
    other = next(number for number in range(3) if broker_name(number) != first)
    rules = ClusterRules(isolation(p=([r"iso/.*"], [rf"b{other}\..*"], [], 1)))
    assert place(view, bundle, rules=rules) == broker_name(other)


def test_the_namespaces_of_a_group_are_kept_apart_by_domain_and_then_by_broker() -> None:
    config = replace(SETTINGS, failure_domains_enabled=True)
    domains = {broker_name(0): "east", broker_name(1): "east", broker_name(2): "west", broker_name(3): "west"}
    groups = {f"t/n{number}": "g1" for number in range(4)} | {"t/n2": "G1"}
    rules = ClusterRules(domains=domains, groups=groups)
    view = cluster(4)
    chosen = [place(view, bundle_name(f"t/n{number}", 0), config, rules, seed=number) for number in range(4)]
    assert len(set(chosen)) == 4
    assert {domains[str(broker)] for broker in chosen[:2]} == {"east", "west"}


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 10_000))
@settings(deadline=None, max_examples=rounds(60))
def test_however_many_bundles_and_brokers_no_broker_has_two_more_than_another(
    brokers: int, bundles: int, seed: int
) -> None:
    view = cluster(brokers)
    placer = placer_of()
    for number in range(bundles):
        place(view, bundle_name("t/n", number), seed=seed + number, placer=placer)
    counts = [view.brokers[broker_name(number)].bundles_of("t/n") for number in range(brokers)]
    assert sum(counts) == bundles
    assert max(counts) - min(counts) <= 1


def test_usage_history_keeps_a_short_peak_from_changing_the_choice() -> None:
    config = replace(
        SETTINGS,
        load_balancer_load_placement_strategy=f"{STRATEGIES}LeastResourceUsageWithWeight",
        load_balancer_distribute_bundles_evenly_enabled=False,
    )
    busy = {bundle_name("t/x", number): BundleStats(10, 10, 10, 10, topics=1) for number in range(2)}
    view = view_of({broker_name(0): report(0.1, busy), broker_name(1): report(0.6, busy)})
    placer = placer_of(config)
    assert place(view, bundle_name("t/n", 0), config, placer=placer) == broker_name(0)
    view.set_report(broker_name(0), report(0.8, busy))
    chosen = place(view, bundle_name("t/n", 1), config, placer=placer)
    assert chosen == broker_name(0), "0.9 of the past and 0.1 of the peak are still well below the other's usage"


def test_stored_averages_count_for_a_bundle_that_is_not_known_yet() -> None:
    view = cluster(2)
    stored = BundleData.assuming(BundleStats(9_000, 1, 9_000, 1))
    first = placer_of().place(bundle_name("t/n", 0), view, SETTINGS, NO_RULES, random=Random(1), now_s=0, stored=stored)
    other = ({*view.brokers} - {first}).pop()
    chosen = [place(view, bundle_name(f"t/m{number}", 0), seed=number) for number in range(10)]
    assert chosen == [other] * 10, "eighteen thousand messages a second outweigh ten unknown bundles"
