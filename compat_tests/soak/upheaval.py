"""What happens to the server during a soak: kills and starts, topics are unloaded, policies changed, partitions
added."""

import time
from typing import Any

import pulsar

from compat_tests.harness import POLL_SECONDS
from compat_tests.python.rest import Refused
from compat_tests.soak.claims import Outage
from compat_tests.soak.memory import Memory, Sample, pss_mb
from compat_tests.soak.stage import Stage, TopicRecord

KILL_EVERY_SECONDS = (32.0, 48.0)
KILLS_UNTIL_SHARE = 0.75
"""No kill comes after this share of the soak. The rest belongs to one process, whose memory must stay flat."""
KILL_DURING_START_ODDS = 0.3
KILLED_AFTER_SECONDS = (0.05, 0.6)
QUIET_TIMEOUT_SECONDS = 8.0
UNLOAD_EVERY_SECONDS = 17.0
POLICY_EVERY_SECONDS = 3.0
SAMPLE_EVERY_SECONDS = 1.0

DISPATCH_RATE = {"dispatchThrottlingRateInMsg": 400, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
POLICIES: tuple[tuple[str, Any], ...] = (
    ("maxUnackedMessagesOnConsumer", 5_000),
    ("maxUnackedMessagesOnConsumer", 0),
    ("maxUnackedMessagesOnSubscription", 20_000),
    ("dispatchRate", {**DISPATCH_RATE, "relativeToPublishRate": False}),
    ("subscriptionDispatchRate", {**DISPATCH_RATE, "relativeToPublishRate": False}),
    ("publishRate", {"publishThrottlingRateInMsg": 300, "publishThrottlingRateInByte": -1}),
    ("maxProducers", 50),
    ("maxConsumers", 100),
    ("compactionThreshold", 100_000_000),
    ("deduplicationSnapshotInterval", 10),
)
"""Each policy has a path below a topic, and a value that does not slow down or refuse anybody for long."""


class Killer:
    """Kills and starts the server, and measures how long it is away."""

    def __init__(self, stage: Stage, memory: Memory, every: tuple[float, float] = KILL_EVERY_SECONDS) -> None:
        self._stage = stage
        self._memory = memory
        self._every = every
        self._choices = stage.random_for("killer")
        self._ready_at = time.monotonic()

    def run(self) -> None:
        """Kills and starts the server again and again until the load ends."""
        while not self._stage.ended.is_set():
            kill_at = time.monotonic() + self._choices.uniform(*self._every)
            while time.monotonic() < kill_at and not self._stage.ended.is_set():
                self._stage.pause(SAMPLE_EVERY_SECONDS)
                self._sample()
            if not self._stage.ended.is_set() and self._stage.share_over() < KILLS_UNTIL_SHARE:
                self.kill_and_start()

    def _sample(self) -> None:
        age = time.monotonic() - self._ready_at
        self._memory.samples.append(Sample(len(self._stage.kills), age, pss_mb(self._stage.server.pid)))

    def kill_and_start(self) -> None:
        stage = self._stage
        with stage.chunking:
            stage.is_up.clear()
            for name in list(stage.quiet):
                stage.quiet[name] = False
            killed_at = time.monotonic()
            stage.server.kill()
            self._wait_until_quiet()
            if self._choices.random() < KILL_DURING_START_ODDS:
                stage.server.spawn()
                stage.ended.wait(self._choices.uniform(*KILLED_AFTER_SECONDS))
                stage.server.kill()
                stage.counts["kills during a start"] += 1
            stage.server.start()
            self._ready_at = time.monotonic()
            stage.kills.append(Outage(killed_at, self._ready_at))
            stage.is_up.set()
        stage.counts["kills"] += 1

    def _wait_until_quiet(self) -> None:
        """Waits until consumers have taken what was in their queues, because that is not a delivery after the kill."""
        deadline = time.monotonic() + QUIET_TIMEOUT_SECONDS
        while not all(self._stage.quiet.copy().values()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if time.monotonic() >= deadline:
            noisy = [name for name, is_quiet in self._stage.quiet.items() if not is_quiet]
            self._stage.complain(f"consumers still get messages of a dead server: {noisy}")


class Meddler:
    """An administrator who changes topics all the time. A change that was answered must stay, also over kills."""

    def __init__(self, stage: Stage, topics: list[TopicRecord]) -> None:
        self._stage = stage
        self._topics = topics
        self._choices = stage.random_for("meddler")
        self._set: dict[str, Any] = {}
        self._uncertain: set[str] = set()

    def run(self) -> None:
        next_unload = time.monotonic() + UNLOAD_EVERY_SECONDS
        grown = False
        while not self._stage.ended.is_set():
            self._stage.pause(POLICY_EVERY_SECONDS)
            if not self._stage.is_up.wait(1) or self._stage.ended.is_set():
                continue
            self._change_policy()
            if time.monotonic() > next_unload:
                next_unload = time.monotonic() + UNLOAD_EVERY_SECONDS
                self._unload()
            if not grown and self._stage.share_over() > 0.5:
                grown = self._grow()
        self.check_all()

    def _change_policy(self) -> None:
        topic = self._choices.choice(self._topics).spec
        name, value = self._choices.choice(POLICIES)
        path = f"{topic.rest_path}/{name}"
        remove = path in self._set and self._choices.random() < 0.5
        try:
            if path in self._set and path not in self._uncertain:
                self._check(path)
            self._uncertain.add(path)
            if remove:
                self._stage.admin.delete(path)
                self._set[path] = None
            else:
                self._stage.admin.post(path, value)
                self._set[path] = value
            self._uncertain.discard(path)
            self._stage.counts["policies changed"] += 1
        except Refused as error:
            self._stage.complain(f"(14) {path}: {error}")
        except OSError:
            self._stage.counts["refused calls"] += 1

    def _check(self, path: str) -> None:
        found, right = self._stage.admin.get(path), self._set[path]
        is_right = found in ("", None) if right is None else includes(found, right)
        if not is_right:
            self._stage.complain(f"(14) {path} is {found!r}, was set to {right!r}")

    def check_all(self) -> None:
        """Checks each policy whose last change was answered."""
        for path in self._set.keys() - self._uncertain:
            try:
                self._check(path)
            except OSError:
                self._stage.counts["refused calls"] += 1

    def put_right(self) -> None:
        """Checks after the last kill that what was set is still there, and then removes it, so that nothing is limited
        any more."""
        self.check_all()
        for path in self._set:
            self._stage.admin.delete(path)

    def _unload(self) -> None:
        """Unloads a topic, which is loaded again at the first call; clients come back by themselves."""
        stage = self._stage
        topic = self._choices.choice([each for each in self._topics if not each.spec.is_chunked])
        began = time.monotonic()
        stage.counts["unloads begun"] += 1
        try:
            stage.admin.put(f"{topic.spec.rest_path}/unload")
            stage.counts["unloads"] += 1
        except Refused as error:
            stage.complain(f"(14) unload of {topic.spec.name}: {error}")
        except OSError:
            stage.counts["refused calls"] += 1
        topic.unloads.append(Outage(began, time.monotonic(), is_kill=False))

    def _grow(self) -> bool:
        """Adds a partition to each partitioned topic. Returns False when the server could not be asked."""
        for topic in self._topics:
            if not topic.spec.partitions:
                continue
            try:
                self._stage.admin.post(f"{topic.spec.rest_path}/partitions", topic.spec.partitions + 1)
            except Refused as error:
                self._stage.complain(f"(14) more partitions: {error}")
            except (OSError, pulsar.PulsarException):
                return False
        return True


def includes(found: Any, right: Any) -> bool:
    """Returns whether a policy's answer has everything that was set; it may have further members."""
    if isinstance(right, dict):
        return isinstance(found, dict) and all(found.get(name) == value for name, value in right.items())
    return bool(found == right)
