"""Runs one soak from its first topic to its verdict."""

import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

import pulsar

from compat_tests.harness import Server
from compat_tests.soak.claims import ACKS_PERSISTED_WITHIN_SECONDS
from compat_tests.soak.consuming import ConsumerSlot, subscribe
from compat_tests.soak.memory import CACHES_MB, Memory, pss_mb
from compat_tests.soak.producing import produce
from compat_tests.soak.stage import Stage, TopicRecord
from compat_tests.soak.topics import NAMESPACE, TOPICS, TTL_SECONDS
from compat_tests.soak.upheaval import KILL_EVERY_SECONDS, Killer, Meddler
from compat_tests.soak.verdict import UNREAD, Judge
from compat_tests.soak.watching import CompactionWatch, Run, Seeker, fleeting, follow

SETTINGS = {
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "maxMessageSize": "20000",
    "managedLedgerMaxEntriesPerLedger": "1000",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "5",
    "messageExpiryCheckIntervalInMinutes": "0.02",
    "brokerDeduplicationEntriesInterval": "200",
    "fillAckHolesIntervalSeconds": "20",
    **{key: str(value) for key, value in CACHES_MB.items()},
}
PROGRESS_EVERY_SECONDS = 10.0
PRODUCER_CLIENTS = 2
CONSUMER_CLIENTS = 3
SHOWN = ("sent", "receipts", "delivered", "acked", "refused", "consumers", "producers", "kills", "unloads", "seeks")


@dataclass(slots=True)
class Verdict:
    """The result of a soak; after a good one `complaints` is empty."""

    complaints: list[str]
    table: list[tuple[str, str]]
    counts: dict[str, int]


@dataclass(slots=True)
class Soak:
    """A soak. `kill_every` gives the least and the most seconds between two kills."""

    folder: Path
    minutes: float
    seed: int
    kill_every: tuple[float, float] = KILL_EVERY_SECONDS
    memory: Memory = field(default_factory=Memory)

    def run(self) -> Verdict:
        server = Server(self.folder, settings=SETTINGS)
        server.start()
        try:
            return self._run(server)
        finally:
            server.close()

    def _run(self, server: Server) -> Verdict:
        stage = Stage(server, self.minutes, self.seed)
        topics = [TopicRecord(spec) for spec in TOPICS]
        by_name = {each.spec.name: each for each in topics}
        prepare(stage, topics)
        clients = [stage.new_client() for _ in range(PRODUCER_CLIENTS + CONSUMER_CLIENTS + 1)]
        stage.began = time.monotonic()
        start_producers(stage, topics, clients[:PRODUCER_CLIENTS])
        start_consumers(stage, topics, clients[PRODUCER_CLIENTS:-1])
        watcher = clients[-1]
        followed = {name: Run("nothing", None) for name in ("batched", "plain")}
        for name, run in followed.items():
            stage.run(f"reader of {name}", follow, stage, by_name[name].spec, watcher, run)
        seeker = Seeker(stage, by_name["plain"], watcher)
        stage.run("seeker", seeker.run)
        stage.run("compaction", CompactionWatch(stage, by_name["compacted"], watcher).run)
        stage.run("non-persistent", fleeting, stage, watcher)
        meddler = Meddler(stage, topics)
        stage.run("meddler", meddler.run)
        killer = Killer(stage, self.memory, self.kill_every)
        stage.run("killer", killer.run)
        used = self._wait(stage)
        stage.join()
        stage.close_clients()
        time.sleep(2 * ACKS_PERSISTED_WITHIN_SECONDS)
        killer.kill_and_start()
        meddler.put_right()
        began = time.monotonic()
        judge = Judge(stage, topics)
        complaints = judge.complaints_about_expiry(by_name["short_lived"])
        complaints += judge.judge(followed, {"plain": seeker.runs})
        stage.close_clients()
        complaints += [*stage.complaints, *self.memory.complaints()]
        complaints += [f"(16) the server's log: {line}" for line in server.error_lines()[:10]]
        return Verdict(complaints, self._table(stage, used, time.monotonic() - began), dict(stage.counts))

    def _wait(self, stage: Stage) -> float:
        """Waits until the time is over, and prints a line now and then. Returns how many cores this process used on
        average."""
        began, cpu_before = time.monotonic(), cpu_seconds()
        next_line = began + PROGRESS_EVERY_SECONDS
        while stage.share_over() < 1 and not stage.ended.is_set():
            stage.pause(0.2)
            if time.monotonic() > next_line:
                next_line += PROGRESS_EVERY_SECONDS
                print(self._progress(stage), flush=True)
        return (cpu_seconds() - cpu_before) / (time.monotonic() - began)

    def _progress(self, stage: Stage) -> str:
        counts = "  ".join(f"{name} {stage.counts[name]}" for name in SHOWN)
        megabytes = f"{self.memory.samples[-1].megabytes:.0f} MB" if self.memory.samples else "-"
        return f"{time.monotonic() - stage.began:5.0f} s  {counts}  {megabytes}  broken {len(stage.complaints)}"

    def _table(self, stage: Stage, used: float, judged_seconds: float) -> list[tuple[str, str]]:
        rows = [(name, str(count)) for name, count in sorted(stage.counts.items())]
        rows.append(("slowest return after a kill, s", f"{max(each.ended - each.began for each in stage.kills):.1f}"))
        rows.append(("server's memory per process, first→last warm, MB", self.memory.told() or "never warm"))
        rows.append(("most growth in a process, MB", f"{self.memory.growth_in_a_life():.1f}"))
        rows.append(("growth over kills, MB", f"{self.memory.growth_over_lives():.1f}"))
        rows.append(("server's memory at the end, MB", f"{pss_mb(stage.server.pid):.0f}"))
        rows.append(("this program's CPU, cores", f"{used:.2f}"))
        rows.append(("judged in, s", f"{judged_seconds:.0f}"))
        return rows


def prepare(stage: Stage, topics: list[TopicRecord]) -> None:
    """Makes the topics with their policies and subscriptions, before anything is sent."""
    stage.admin.put(f"namespaces/{NAMESPACE}")
    for_ever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    stage.admin.post(f"namespaces/{NAMESPACE}/retention", for_ever)
    client = stage.new_client()
    for topic in topics:
        path = topic.spec.rest_path
        if topic.spec.partitions:
            stage.admin.put(f"{path}/partitions", topic.spec.partitions)
        else:
            stage.admin.put(path)
        for name, value in topic.spec.policies.items():
            stage.admin.post(f"{path}/{name}", value)
        for spec in topic.spec.subscriptions:
            if not spec.after_share:
                subscribe(client, topic.spec, spec).close()
        if not topic.spec.subscriptions:
            stage.admin.post(f"{path}/messageTTL?messageTTL={TTL_SECONDS}")
            client.subscribe(topic.spec.full_name, UNREAD).close()


def start_producers(stage: Stage, topics: list[TopicRecord], clients: list[pulsar.Client]) -> None:
    for number, topic in enumerate(topics):
        for slot, options in enumerate(topic.spec.producers):
            client = clients[(number + slot) % len(clients)]
            stage.run(f"producer {topic.spec.name} {slot}", produce, stage, topic, slot, options, client)


def start_consumers(stage: Stage, topics: list[TopicRecord], clients: list[pulsar.Client]) -> None:
    for topic in topics:
        for spec in topic.spec.subscriptions:
            for number in range(spec.consumers):
                slot = ConsumerSlot(stage, topic, spec, number)
                stage.run(f"consumer {topic.spec.name} {spec.name}", slot.run, clients[number % len(clients)])


def cpu_seconds() -> float:
    """Returns the CPU time of this process, including the client library's."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
