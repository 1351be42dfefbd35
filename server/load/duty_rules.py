"""Decides which tasks of the leader are due at a moment, and which averages the leader writes. Does no I/O; times are
arguments.

Source: PulsarService.startLoadManagementService and startLeaderElectionService for the intervals,
ModularLoadManagerImpl.selectTopKBundle for the averages.
"""

from enum import Enum
from heapq import nlargest

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.load_view import LoadView


class Duty(Enum):
    """The tasks of a leader. The values complete the sentence "the leader could not …"."""

    LEARN = "read the stored averages"
    SPLIT = "split bundles"
    SHED = "spread the load"
    WRITE = "write the averages"


REPORTS_PAUSE_SECONDS = 1.0
"""How long the leader waits after a report has changed, so that the reports of many brokers are looked at together."""

_ON_REPORTS = (Duty.LEARN, Duty.SPLIT)


class Timetable:
    """Knows which duties are due. All times are seconds of one monotonic clock."""

    def __init__(self, now_s: float) -> None:
        self._done_s = dict.fromkeys(Duty, now_s)
        self._reports_changed = dict.fromkeys(_ON_REPORTS, False)

    def took_over(self, now_s: float) -> None:
        """Called when this broker becomes the leader. Makes the duties due that follow from reports, and begins all
        intervals anew."""
        self._done_s = dict.fromkeys(Duty, now_s)
        self.reports_changed()

    def reports_changed(self) -> None:
        self._reports_changed = dict.fromkeys(_ON_REPORTS, True)

    def done(self, duty: Duty, now_s: float) -> None:
        self._done_s[duty] = now_s

    def due(self, now_s: float, settings: LoadSettings) -> list[Duty]:
        """Returns the duties that are due now, in the order in which to do them. A duty that follows from changed
        reports is returned once for all reports that have changed so far."""
        found = [duty for duty in Duty if self._left(duty, now_s, settings) <= 0]
        for duty in found:
            if duty in self._reports_changed:
                self._reports_changed[duty] = False
        return found

    def seconds_left(self, now_s: float, settings: LoadSettings) -> float | None:
        """Returns the time until the next duty is due, or None when no duty will become due before a report or a
        setting changes."""
        least = min(self._left(duty, now_s, settings) for duty in Duty)
        return None if least == _NEVER else max(0.0, least)

    def _left(self, duty: Duty, now_s: float, settings: LoadSettings) -> float:
        if duty in self._reports_changed:
            is_on = duty is Duty.LEARN or settings.load_balancer_auto_bundle_split_enabled
            is_on = is_on and settings.load_balancer_enabled and self._reports_changed[duty]
            return self._done_s[duty] + REPORTS_PAUSE_SECONDS - now_s if is_on else _NEVER
        if not settings.load_balancer_enabled:
            return _NEVER
        if duty is Duty.SHED:
            if not settings.load_balancer_shedding_enabled:
                return _NEVER
            return self._done_s[duty] + settings.load_balancer_shedding_interval_minutes * 60 - now_s
        return self._done_s[duty] + settings.load_balancer_resource_quota_update_interval_minutes * 60 - now_s


_NEVER = float("inf")


def worth_writing(view: LoadView, settings: LoadSettings) -> list[str]:
    """Returns the bundles whose averages are written: the busiest bundles, a configured number per broker, or all
    bundles if that number is not positive."""
    most = settings.load_balancer_max_number_of_bundles_in_bundle_load_report
    if most <= 0:
        return sorted(view.bundles)

    def busy(bundle: str) -> tuple[float, float, str]:
        data = view.bundles[bundle].long_term
        return data.throughput, data.message_rate, bundle

    return nlargest(most * len(view.brokers), view.bundles, key=busy)
