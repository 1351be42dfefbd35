"""One round: load, faults, recovery, verdict."""

import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from compat_tests.chaos.cluster import ChaosCluster
from compat_tests.chaos.faults import Faults
from compat_tests.chaos.load import Progress, prepare, start, topics_of
from compat_tests.chaos.plan import Fault, Kind, plan_of
from compat_tests.chaos.seats import CLUSTER, wait_serving
from compat_tests.chaos.visitors import Visitors
from compat_tests.harness import Server, wait_until
from compat_tests.soak.claims import ACKS_PERSISTED_WITHIN_SECONDS, Outage
from compat_tests.soak.stage import Stage, TopicRecord
from compat_tests.soak.verdict import Judge

BEFORE_SECONDS = ACKS_PERSISTED_WITHIN_SECONDS + 1
"""The load before topics are unloaded. What is acknowledged in its first part may never come back."""
AFTER_SECONDS = 0.5
STARTED_WITHIN_SECONDS = 120.0
SERVES_WITHIN_SECONDS = 240.0
RECOVERED_WITHIN_SECONDS = 90.0
"""Everybody goes on in a few seconds; the rest is for a busy machine and for TCP's doubled waits after a cut."""
CALL_SECONDS = 20
REWINDS_MAX = 100
"""How often a producer may send again what had no receipt: after each loss of its connection."""
ENDS_BY_ITSELF = (Kind.FAILED_SYNC, Kind.FULL_DISK)
"""A process that cannot store ends, with ERROR lines."""


@dataclass(slots=True)
class Result:
    """The outcome of one round; after a good one `complaints` is empty. Times are seconds."""

    plan: tuple[Fault, ...]
    complaints: list[str] = field(default_factory=list)
    recovered_in: float = 0.0
    receipts: int = 0
    stored: int = 0
    delivered: int = 0
    visits: tuple[int, int] = (0, 0)
    """Visitors that got all their receipts, and others."""
    packets: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class ChaosRound:
    """The round with one number on a running cluster; its plan and its clients' choices follow from `seed`."""

    def __init__(
        self, cluster: ChaosCluster, number: int, seed: str, fault_seconds: float, kinds: Sequence[Kind] = tuple(Kind)
    ) -> None:
        self._cluster = cluster
        self._plan = plan_of(seed, cluster.shape, fault_seconds, kinds)
        self._stage = Stage(cast(Server, cluster), 60, number)
        self._stage.more_rewinds = REWINDS_MAX
        self._topics = [TopicRecord(spec) for spec in topics_of(number)]
        self._errors_before = {name: len(each.process.error_lines()) for name, each in cluster.keepers.items()}

    @property
    def plan(self) -> tuple[Fault, ...]:
        return self._plan

    def run(self) -> Result:
        began = time.monotonic()
        result = Result(self._plan)
        try:
            self._run(result)
        except Exception as error:
            result.complaints.append(f"(18) the round: {type(error).__name__}: {error}")
        finally:
            if not self._stage.ended.is_set():
                self._stage.join()
            self._stage.close_clients()
        result.complaints += [*self._stage.complaints, *self._about_processes(began)]
        counts = self._stage.counts
        result.receipts, result.stored, result.delivered = counts["receipts"], counts["stored"], counts["delivered"]
        result.visits = counts["visits"], counts["visits in vain"]
        result.packets = self._cluster.network.counts
        result.seconds = time.monotonic() - began
        return result

    def _run(self, result: Result) -> None:
        stage = self._stage
        prepare(stage, self._topics)
        start(stage, self._topics)
        self._wait_progress(STARTED_WITHIN_SECONDS)
        stage.pause(BEFORE_SECONDS)
        faults = Faults(self._cluster, self._plan)
        unloaded = time.monotonic()
        for topic in self._topics:
            stage.admin.put(f"{topic.spec.rest_path}/unload")
        self._wait_progress(STARTED_WITHIN_SECONDS)
        visitors = Visitors(self._cluster, stage, self._topics)
        visitors.start()
        try:
            faults.run()
        finally:
            faults.close()
        ended = time.monotonic()
        wait_serving(self._cluster.keepers, SERVES_WITHIN_SECONDS)
        self._wait_progress(RECOVERED_WITHIN_SECONDS)
        wait_until(lambda: not unwell(self._cluster), "all brokers are well", RECOVERED_WITHIN_SECONDS)
        recovered = time.monotonic()
        # Topics store all acknowledgements when they are unloaded: only what was acknowledged before that is held to be
        # stored. A slow disk delays later ones, and the healing of bookies that were away fences ledgers.
        stage.kills += [Outage(unloaded, recovered), Outage(recovered, float("inf"), is_kill=False)]
        result.recovered_in = recovered - ended
        visitors.end()
        stage.pause(AFTER_SECONDS)
        stage.join()
        visitors.register()
        result.complaints += Judge(stage, self._topics).judge({}, {})

    def _wait_progress(self, seconds: float) -> None:
        """Waits until all clients have come beyond this moment. Raises TimeoutError, which names the others."""
        progress = Progress(self._topics)
        try:
            wait_until(lambda: not progress.laggards(), "all clients go on by themselves", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; not {progress.laggards()}") from None

    def _about_processes(self, began: float) -> list[str]:
        """Complains about ERROR lines, and about processes that ended by themselves, unless their disk failed."""
        excused = {fault.target for fault in self._plan if fault.kind in ENDS_BY_ITSELF}
        found = []
        for name, keeper in self._cluster.keepers.items():
            if name in excused:
                continue
            lines = keeper.process.error_lines()[self._errors_before[name] :]
            found += [f"(16) {line}" for line in lines[:5]]
            found += [f"(17) {name} ended by itself with {code}" for at, code in keeper.ends if at >= began]
        return found


def unwell(cluster: ChaosCluster) -> list[str]:
    """Returns the brokers that do not know of all brokers, or that cannot store and deliver a message."""
    registered = sorted(cluster.web_url_of(name).removeprefix("http://") for name in cluster.shape.brokers)
    found = []
    for name in cluster.shape.brokers:
        base = f"{cluster.web_url_of(name)}/admin/v2/brokers"
        try:
            with urllib.request.urlopen(f"{base}/{CLUSTER}", timeout=CALL_SECONDS) as answer:
                known = sorted(json.load(answer))
            with urllib.request.urlopen(f"{base}/health", timeout=CALL_SECONDS):
                pass
        except OSError:
            found.append(name)
            continue
        if known != registered:
            found.append(name)
    return found
