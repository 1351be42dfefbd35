"""Decides when a broker writes its report, and which bundles a report has room for. Does no I/O.

Source: ModularLoadManagerImpl.needBrokerDataUpdate. Apache's broker has no limit of the size. Here a report is limited,
because a record over ZooKeeper's limit of 1 MB would not be written at all, and the leader would keep an outdated
report; besides, every broker parses each report in one turn of the event loop.
"""

from dataclasses import replace
from enum import Enum
from math import inf

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BundleStats, LocalBrokerData

REPORT_BYTES_MAX = 400_000
"""The largest size of a report. A report that is too large leaves out bundles without topics first, then the bundles
with the least traffic. The leader then believes that the broker has fewer bundles, but knows all bundles with much
load."""

BUNDLE_BYTES = 330
"""How many bytes a bundle with a name of 70 characters adds to a report. The name is in a report up to three times."""


class Reason(Enum):
    """The reasons to write a report."""

    AGE = "the last one is too old"
    CHANGE = "the load has changed"
    ASKED = "somebody asked"


def change_percent(old: float, new: float) -> float:
    """Returns the change as a percentage of the old value. A change from 0 to another value is infinite."""
    if old == 0:
        return 0.0 if new == 0 else inf
    return 100 * abs((old - new) / old)


def why_write(written: LocalBrokerData, age_s: float, now: LocalBrokerData, settings: LoadSettings) -> Reason | None:
    """Returns why the report `now` shall replace the report `written`, which is `age_s` seconds old, or None when no
    new report is needed."""
    if age_s > settings.load_balancer_report_update_max_interval_minutes * 60:
        return Reason.AGE
    change = max(
        100 * abs(written.max_resource_usage - now.max_resource_usage),
        change_percent(written.message_rate, now.message_rate),
        change_percent(written.throughput, now.throughput),
        change_percent(written.bundle_count, now.bundle_count),
    )
    return Reason.CHANGE if change > settings.load_balancer_report_update_threshold_percentage else None


def fitted(stats: dict[str, BundleStats], bytes_max: int = REPORT_BYTES_MAX) -> dict[str, BundleStats]:
    """Returns the bundles that a report has room for, in their order."""
    room = bytes_max // BUNDLE_BYTES
    if len(stats) <= room:
        return stats

    def weight(bundle: str) -> tuple[bool, float, int]:
        each = stats[bundle]
        return (not each.is_idle, each.msg_throughput_in + each.msg_throughput_out, each.topics)

    kept = set(sorted(stats, key=weight, reverse=True)[:room])
    return {bundle: each for bundle, each in stats.items() if bundle in kept}


def with_bundles(report: LocalBrokerData, stats: dict[str, BundleStats]) -> LocalBrokerData:
    """Returns the report with these bundles and with their sums (LocalBrokerData.update). Bundles that are new or
    missing compared with `report` are added to its gains and losses."""
    before, after = set(report.bundles), set(stats)
    gains = (set(report.gains) | (after - before)) & after
    losses = (set(report.losses) | (before - after)) - after
    values = stats.values()
    return replace(
        report,
        last_stats=stats,
        bundles=tuple(stats),
        gains=tuple(bundle for bundle in stats if bundle in gains),
        losses=tuple(sorted(losses)),
        msg_rate_in=sum(each.msg_rate_in for each in values),
        msg_rate_out=sum(each.msg_rate_out for each in values),
        msg_throughput_in=sum(each.msg_throughput_in for each in values),
        msg_throughput_out=sum(each.msg_throughput_out for each in values),
        topics=sum(each.topics for each in values),
        consumers=sum(each.consumers for each in values),
        producers=sum(each.producers for each in values),
        bundle_count=len(stats),
    )
