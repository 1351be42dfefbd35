"""Reports of imaginary brokers for the tests of the rules."""

import json
from dataclasses import replace

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BrokerUsage, BundleStats, LocalBrokerData, ResourceUsage
from magnetar.server.load.isolation_rules import IsolationPolicies
from magnetar.server.load.load_view import LoadView
from magnetar.server.load.placement_rules import ClusterRules, Placer
from magnetar.server.load.strategies import strategies_of

MB = 1 << 20
SETTINGS = LoadSettings()
NO_RULES = ClusterRules()


def placer_of(config: LoadSettings = SETTINGS) -> Placer:
    return Placer(strategies_of(config)[0])


def isolation(**policies: tuple[list[str], list[str], list[str], int]) -> IsolationPolicies:
    return IsolationPolicies.read(
        json.dumps(
            {
                name: {
                    "namespaces": namespaces,
                    "primary": primary,
                    "secondary": secondary,
                    "auto_failover_policy": {
                        "policy_type": "min_available",
                        "parameters": {"min_limit": str(limit), "usage_threshold": "100"},
                    },
                }
                for name, (namespaces, primary, secondary, limit) in policies.items()
            }
        ).encode()
    )


def broker_name(number: int) -> str:
    return f"b{number}.example:8080"


def bundle_name(namespace: str, number: int) -> str:
    return f"{namespace}/0x{number:08x}_0x{number + 1:08x}"


def report(
    cpu: float = 0.1,
    bundles: dict[str, BundleStats] | None = None,
    *,
    version: str = "4.0.7",
    topics: int | None = None,
    update: int = 0,
) -> LocalBrokerData:
    """A report whose sums are right. `cpu` is the used part; `update` makes reports differ that say the same."""
    stats = bundles or {}
    made = LocalBrokerData(
        usage=BrokerUsage(cpu=ResourceUsage(cpu * 200, 200)),
        msg_rate_in=sum(each.msg_rate_in for each in stats.values()),
        msg_rate_out=sum(each.msg_rate_out for each in stats.values()),
        msg_throughput_in=sum(each.msg_throughput_in for each in stats.values()),
        msg_throughput_out=sum(each.msg_throughput_out for each in stats.values()),
        topics=sum(each.topics for each in stats.values()) if topics is None else topics,
        last_stats=dict(stats),
        bundles=tuple(stats),
        bundle_count=len(stats),
        version=version,
        last_update_ms=update,
    )
    return replace(made, last_stats={name: replace(each) for name, each in stats.items()})


def view_of(reports: dict[str, LocalBrokerData]) -> LoadView:
    view = LoadView()
    for broker, each in reports.items():
        view.set_report(broker, each)
    return view
