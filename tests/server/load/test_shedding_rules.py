"""Shedding: what the strategies move, and that a cluster settles instead of moving bundles to and fro for ever."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.config.load_settings import SHEDDERS, STRATEGIES, LoadSettings
from magnetar.server.load.average_shedder_rules import AvgShedder
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.load_view import LoadView
from magnetar.server.load.placement_rules import ClusterRules, Placer
from magnetar.server.load.shedding_rules import (
    Move,
    OverloadShedder,
    SheddingStrategy,
    ThresholdShedder,
    UniformLoadShedder,
)
from magnetar.server.load.strategies import strategies_of
from tests.rounds import rounds
from tests.server.load.clusters import MB, broker_name, bundle_name, report, view_of

SETTINGS = LoadSettings()


def traffic(megabytes: float, messages: float = 0.0) -> BundleStats:
    return BundleStats(messages / 2, megabytes * MB / 2, messages / 2, megabytes * MB / 2, topics=2)


def bundles(*megabytes: float, namespace: str = "t/n") -> dict[str, BundleStats]:
    return {bundle_name(namespace, number): traffic(each) for number, each in enumerate(megabytes)}


def names(moves: Iterable[Move]) -> list[str]:
    return [move.bundle for move in moves]


def test_threshold_moves_the_largest_bundles_until_it_is_enough() -> None:
    view = view_of({broker_name(0): report(0.8, bundles(100, 300, 200)), broker_name(1): report(0.1)})
    # The usage is 0.35 above the average of 0.45; 600 MB/s of (0.35 - 0.10 + 0.05) are 180 MB/s.
    assert ThresholdShedder().find(view, SETTINGS) == [Move(bundle_name("t/n", 1), broker_name(0))]


def test_threshold_lets_small_differences_be() -> None:
    view = view_of({broker_name(0): report(0.54, bundles(*[40] * 10)), broker_name(1): report(0.36)})
    assert not ThresholdShedder().find(view, SETTINGS)


def test_threshold_does_nothing_for_little_traffic() -> None:
    view = view_of({broker_name(0): report(0.8, bundles(10, 10)), broker_name(1): report(0.1)})
    assert not ThresholdShedder().find(view, SETTINGS)
    config = replace(SETTINGS, load_balancer_bundle_unload_min_throughput_threshold=1)
    assert len(ThresholdShedder().find(view, config)) == 1


def test_threshold_forgets_a_peak() -> None:
    shedder = ThresholdShedder()
    calm = view_of({broker_name(0): report(0.3, bundles(300, 300)), broker_name(1): report(0.3)})
    assert not shedder.find(calm, SETTINGS)
    peak = view_of({broker_name(0): report(1.0, bundles(300, 300)), broker_name(1): report(0.3)})
    assert not shedder.find(peak, SETTINGS), "0.9 of the past: the usage counts as 0.37"
    moves = [shedder.find(peak, SETTINGS) for _ in range(10)]
    assert any(moves)


def test_threshold_can_help_an_idle_broker_among_many() -> None:
    config = replace(SETTINGS, lower_boundary_shedding_enabled=True)
    busy = {broker_name(number): report(0.6, bundles(300, 300, namespace=f"t/n{number}")) for number in range(9)}
    view = view_of({**busy, broker_name(9): report(0.1)})
    assert not ThresholdShedder().find(view, SETTINGS)
    assert len(ThresholdShedder().find(view, config)) == 1


@pytest.mark.parametrize("shedder", [ThresholdShedder, OverloadShedder, UniformLoadShedder, AvgShedder])
def test_bundles_that_stay_stay(shedder: type[SheddingStrategy]) -> None:
    """Health checks, monitors, bundles that were just moved, and a broker's only bundle."""
    own = {
        f"pulsar/{broker_name(0)}/0x00000000_0xffffffff": traffic(100, 9_000),
        f"pulsar/c1/{broker_name(0)}/0x00000000_0xffffffff": traffic(100, 9_000),
        f"sla-monitor/c1/{broker_name(0)}/0x00000000_0xffffffff": traffic(100, 9_000),
        bundle_name("t/n", 0): traffic(100, 9_000),
    }
    view = view_of({broker_name(0): report(0.95, own), broker_name(1): report(0.1)})
    view.unloaded_s[bundle_name("t/n", 0)] = 0.0
    strategy = shedder()
    assert not [move for _ in range(10) for move in strategy.find(view, SETTINGS)]
    view = view_of({broker_name(0): report(0.95, bundles(500)), broker_name(1): report(0.1)})
    assert not [move for _ in range(10) for move in strategy.find(view, SETTINGS)]


def test_overload_looks_at_overloaded_brokers_only() -> None:
    view = view_of(
        {
            broker_name(0): report(0.9, bundles(100, 50)),
            broker_name(1): report(0.84, bundles(90, 90, namespace="t/m")),
            broker_name(2): report(0.1),
        }
    )
    assert OverloadShedder().find(view, SETTINGS) == [Move(bundle_name("t/n", 0), broker_name(0))]


def test_a_bundle_that_would_overload_the_next_broker_as_much_is_passed_over() -> None:
    view = view_of({broker_name(0): report(0.9, bundles(900, 50, 50)), broker_name(1): report(0.3)})
    for shedder in (ThresholdShedder(), OverloadShedder()):
        assert names(shedder.find(view, SETTINGS)) == [bundle_name("t/n", 1), bundle_name("t/n", 2)]


def test_uniform_moves_a_fifth_of_the_difference_in_messages() -> None:
    stats = {bundle_name("t/n", number): traffic(1, rate) for number, rate in enumerate((9_000, 4_000, 3_500, 300))}
    view = view_of({broker_name(0): report(0.2, stats), broker_name(1): report(0.2)})
    # A fifth of 16,800 is 3,360, and 1,000 more are allowed: 9,000 is too much, 4,000 fits, and 300 after it.
    assert names(UniformLoadShedder().find(view, SETTINGS)) == [bundle_name("t/n", 1), bundle_name("t/n", 3)]
    few = replace(SETTINGS, max_unload_bundle_num_per_shedding=1)
    assert names(UniformLoadShedder().find(view, few)) == [bundle_name("t/n", 1)]


def test_uniform_looks_at_bytes_when_the_messages_are_even() -> None:
    config = replace(SETTINGS, load_balancer_msg_rate_difference_shedder_threshold=0)
    view = view_of({broker_name(0): report(0.2, bundles(10, 10, 30)), broker_name(1): report(0.2, bundles(0, 9))})
    assert len(UniformLoadShedder().find(view, config)) == 1
    assert not UniformLoadShedder().find(LoadView(), config)


def test_average_waits_until_a_difference_has_lasted() -> None:
    stats = {bundle_name("t/n", number): traffic(1, 2_000) for number in range(8)}
    far = view_of({broker_name(0): report(0.9, stats), broker_name(1): report(0.1)})
    shedder = AvgShedder()
    assert not shedder.find(far, SETTINGS)
    moves = shedder.find(far, SETTINGS)
    assert len(moves) == 1, "a fifth of 16,000 messages is 3,200"
    near = view_of({broker_name(0): report(0.5, stats), broker_name(1): report(0.3)})
    shedder = AvgShedder()
    rounds = [bool(shedder.find(near, SETTINGS)) for _ in range(8)]
    assert rounds == [False] * 7 + [True]


def test_average_begins_to_count_again_after_a_calm_minute() -> None:
    stats = {bundle_name("t/n", number): traffic(1, 2_000) for number in range(8)}
    near = view_of({broker_name(0): report(0.5, stats), broker_name(1): report(0.3)})
    calm = view_of({broker_name(0): report(0.5, stats), broker_name(1): report(0.45)})
    shedder = AvgShedder()
    for _ in range(7):
        assert not shedder.find(near, SETTINGS)
    assert not shedder.find(calm, SETTINGS)
    assert not shedder.find(near, SETTINGS)


def test_average_sends_a_bundle_where_it_was_meant_to_go() -> None:
    stats = {bundle_name("t/n", number): traffic(1, 2_000) for number in range(8)}
    reports = {broker_name(0): report(0.9, stats), broker_name(1): report(0.1), broker_name(2): report(0.4)}
    view = view_of(reports)
    shedder = AvgShedder()
    shedder.find(view, SETTINGS)
    (move,) = shedder.find(view, SETTINGS)
    for seed in range(10):
        assert shedder.select(sorted(view.brokers), move.bundle, view, SETTINGS, Random(seed)) == broker_name(1)
    others = [broker_name(0), broker_name(2)]
    assert shedder.select(others, move.bundle, view, SETTINGS, Random(1)) in others


# --- a simulated cluster ---


class Simulation:
    """Bundles with a constant load on brokers whose processors are busy in proportion; each minute the leader sheds and
    its moves happen at once."""

    def __init__(self, config: LoadSettings, loads: list[float], brokers: int) -> None:
        self.config = config
        self.loads = {bundle_name("t/n", number): load for number, load in enumerate(loads)}
        self.brokers = [broker_name(number) for number in range(brokers)]
        self.owner = dict.fromkeys(self.loads, self.brokers[0])
        self.view = LoadView()
        placement, self.shedder = strategies_of(config)
        self.placer = Placer(placement)
        self.random = Random(7)
        self.minute = 0

    def usage(self, broker: str) -> float:
        return sum(load for bundle, load in self.loads.items() if self.owner[bundle] == broker)

    def one_minute(self) -> list[tuple[str, str, str]]:
        self.minute += 1
        now_s = self.minute * 60.0
        for broker in self.brokers:
            stats = {
                bundle: traffic(load * 1_000, load * 100_000)
                for bundle, load in self.loads.items()
                if self.owner[bundle] == broker
            }
            self.view.set_report(broker, report(min(1.0, self.usage(broker)), stats, update=self.minute))
        self.view.expire(now_s, 1800, 900)
        done = []
        for move in self.shedder.find(self.view, self.config):
            assert self.owner[move.bundle] == move.broker
            assert move.bundle not in self.view.unloaded_s
            target = self.placer.select(move.bundle, self.view, self.config, ClusterRules(), random=self.random)
            if target is None or target == move.broker:
                continue
            self.view.note_destination(move.bundle, target)
            chosen = self.placer.place(
                move.bundle, self.view, self.config, ClusterRules(), random=self.random, now_s=now_s
            )
            assert chosen == target
            self.owner[move.bundle] = target
            self.view.unloaded_s[move.bundle] = now_s
            done.append((move.bundle, move.broker, target))
        return done


@pytest.mark.parametrize("shedder", SHEDDERS)
def test_bundles_on_one_broker_spread_and_then_stay(shedder: str) -> None:
    config = replace(
        SETTINGS,
        load_balancer_load_shedding_strategy=STRATEGIES + shedder,
        load_balancer_load_placement_strategy=STRATEGIES
        + ("AvgShedder" if shedder == "AvgShedder" else "LeastLongTermMessageRate"),
    )
    simulation = Simulation(config, [0.06] * 16, 3)
    history = [simulation.one_minute() for _ in range(400)]
    usages = [simulation.usage(broker) for broker in simulation.brokers]
    assert any(history)
    assert max(usages) <= 0.85, "nobody is overloaded in the end"
    assert not any(history[200:]), "it settles"


@given(
    st.sampled_from(SHEDDERS[:2]),
    st.lists(st.floats(0.005, 0.4), min_size=2, max_size=14),
    st.integers(2, 5),
)
@settings(deadline=None, max_examples=rounds(40))
def test_whatever_the_bundles_weigh_the_busiest_broker_never_gets_busier_and_moves_end(
    shedder: str, loads: list[float], brokers: int
) -> None:
    config = replace(
        SETTINGS,
        load_balancer_load_shedding_strategy=STRATEGIES + shedder,
        load_balancer_distribute_bundles_evenly_enabled=False,
    )
    simulation = Simulation(config, loads, brokers)
    begin = simulation.usage(simulation.brokers[0])
    history = [simulation.one_minute() for _ in range(300)]
    assert max(simulation.usage(broker) for broker in simulation.brokers) <= begin + 1e-9
    moves: dict[str, int] = {}
    for minute in history:
        for bundle, _, _ in minute:
            moves[bundle] = moves.get(bundle, 0) + 1
    assert max(moves.values(), default=0) <= 10, "one move in the grace period of half an hour, at most"
    last = [move for minute in history[-60:] for move in minute]
    assert not last, f"still moving after four hours: {last}"
