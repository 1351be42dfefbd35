"""Placement on random histories: two views that hear the same choose the same, and never what is not allowed."""

from dataclasses import replace
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magnetar.server.config.load_settings import PLACEMENTS, STRATEGIES, LoadSettings
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.load_view import LoadView
from magnetar.server.load.placement_rules import ClusterRules, allowed
from tests.rounds import rounds
from tests.server.load.clusters import NO_RULES, SETTINGS, broker_name, bundle_name, isolation, placer_of, report

BROKERS = [broker_name(number) for number in range(5)]
BUNDLES = [bundle_name(namespace, number) for namespace in ("t/a", "t/b", "iso/c") for number in range(3)]
RULES = [
    NO_RULES,
    ClusterRules(isolation(p=([r"iso/.*"], [r"b[01]\..*"], [r"b2\..*"], 1))),
    ClusterRules(
        isolation(p=([r"t/a"], [r"b4\..*"], [], 2)),
        domains={BROKERS[0]: "x", BROKERS[1]: "y"},
        groups={"t/a": "g", "t/b": "g"},
    ),
]
CONFIGS = [
    replace(
        SETTINGS,
        load_balancer_load_placement_strategy=STRATEGIES + name,
        failure_domains_enabled=domains,
        prefer_later_versions=domains,
        load_balancer_distribute_bundles_evenly_enabled=even,
    )
    for name in PLACEMENTS
    for domains in (False, True)
    for even in (False, True)
]


class Histories(RuleBasedStateMachine):
    """Two views are told the same and have the same seed: they must choose the same, and never a broker that may not
    own the bundle."""

    @initialize(config=st.sampled_from(CONFIGS), seed=st.integers(0, 1000))
    def begin(self, config: LoadSettings, seed: int) -> None:
        self.config = config
        self.sides = [(LoadView(), placer_of(config), Random(seed)) for _ in range(2)]
        self.said = NO_RULES
        self.now_s = 0.0
        self.updates = 0
        self.alive: set[str] = set()

    @rule(
        broker=st.sampled_from(BROKERS),
        cpu=st.floats(0, 1.2),
        bundles=st.dictionaries(st.sampled_from(BUNDLES), st.integers(0, 10_000), max_size=4),
        version=st.sampled_from(["4.0.7", "4.1.0", "?"]),
        ours=st.booleans(),
    )
    def a_report_comes(self, broker: str, cpu: float, bundles: dict[str, int], version: str, ours: bool) -> None:
        self.updates += 1
        self.alive.add(broker)
        stats = {name: BundleStats(rate, rate * 100, rate, rate * 50, topics=2) for name, rate in bundles.items()}
        made = report(cpu, stats, version=version, update=self.updates)
        for view, _, _ in self.sides:
            view.set_report(broker, made if ours else replace(made, load_manager="other"))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def a_broker_dies(self, data: st.DataObject) -> None:
        self.alive.discard(data.draw(st.sampled_from(sorted(self.alive))))
        for view, placer, _ in self.sides:
            view.keep_brokers(self.alive)
            placer.strategy.keep_brokers(self.alive)

    @rule(rules=st.sampled_from(RULES))
    def an_operator_changes_the_rules(self, rules: ClusterRules) -> None:
        self.said = rules

    @rule(bundle=st.sampled_from(BUNDLES), broker=st.sampled_from(BROKERS))
    def a_destination_is_noted(self, bundle: str, broker: str) -> None:
        may = allowed(bundle, self.sides[0][0], self.said)
        if broker in may:
            for view, _, _ in self.sides:
                view.note_destination(bundle, broker)

    @rule(seconds=st.floats(0, 2000))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        for view, _, _ in self.sides:
            view.expire(self.now_s, 1800, 900)
            view.forget_unreported()

    @rule(bundle=st.sampled_from(BUNDLES))
    def a_bundle_is_placed(self, bundle: str) -> None:
        noted_at_risk = self.said is not NO_RULES
        chosen = [
            placer.place(bundle, view, self.config, self.said, random=random, now_s=self.now_s)
            for view, placer, random in self.sides
        ]
        view = self.sides[0][0]
        may = allowed(bundle, view, self.said)
        assert chosen[0] == chosen[1]
        if chosen[0] is None:
            assert not may
        elif not noted_at_risk:
            assert chosen[0] in may
        else:
            assert chosen[0] in view.brokers
        if chosen[0] is not None:
            assert view.preallocated_to(bundle) == chosen[0]

    @rule(bundle=st.sampled_from(BUNDLES))
    def a_broker_is_selected(self, bundle: str) -> None:
        chosen = {
            placer.select(bundle, view, self.config, self.said, random=random) for view, placer, random in self.sides
        }
        assert len(chosen) == 1
        may = allowed(bundle, self.sides[0][0], self.said)
        assert chosen <= {*may} if may else chosen == {None}

    @invariant()
    def a_bundle_is_promised_to_one_broker_and_only_to_a_living_one(self) -> None:
        if not hasattr(self, "sides"):
            return
        view = self.sides[0][0]
        assert view.brokers.keys() == self.alive
        promised = [bundle for load in view.brokers.values() for bundle in load.preallocated]
        assert len(promised) == len(set(promised))


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=rounds(60), stateful_step_count=40, deadline=None)
