"""Rounds of killing a Spark job at random moments: `python -m compat_tests.spark.kill_rounds --job JOB --rounds N`.

A round has a topic and a folder of its own. The job is started, and driver, server or both are killed by SIGKILL at a
random moment of its work, one to three times. Then it is started until it ends well, and what it made is compared with
an independent read. What a job needs for that is a class `Rounds` (see the protocol) in `rounds_JOB.py`.
"""

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pulsar

from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from compat_tests.python.support import contents
from compat_tests.spark.job_process import JobProcess
from compat_tests.spark.store_server import StoreServer
from compat_tests.spark.stores import STORES

MODULES = {
    "lake_ingest": "rounds_lake",
    "snapshot_table": "rounds_snapshot",
    "window_agg": "rounds_window",
    "replay": "rounds_replay",
}
EXAMPLES = """\
examples:
  python -m compat_tests.spark.kill_rounds --job lake_ingest --rounds 20
  python -m compat_tests.spark.kill_rounds --job replay --rounds 1 --seed 7 --folder ./rounds   # and keep what is left
  python -m compat_tests.spark.kill_rounds --rounds 3 --json > rounds.json   # all jobs
  python -m compat_tests.spark.kill_rounds --job lake_ingest --store s3   # tables and checkpoints in an object store
exit codes: 0 all rounds as they should be, 1 something broke, 2 wrong usage
"""
ON_STORES = ("lake_ingest", "snapshot_table")
"""The jobs whose checkpoint may be at a URL."""
VICTIMS = ("driver", "server", "both")
KILLS_MAX = 3
EARLY_KILLS = 0.2
"""The share of kills that come at any moment. The others come when the job has begun to work, after Spark's long
start."""
WORK_SECONDS = 8.0
"""The longest time between the begin of the job's work and a kill."""
ATTEMPTS_MAX = 5
SETTINGS = {
    "brokerDeduplicationEnabled": "true",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
}
"""Without these settings a topic without subscriptions would be deleted after a minute, which is less than a round
takes; and its messages would be deleted with their ledger when the server comes back, before job or judge have read
them."""
NO_RETENTION = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
EntryId = tuple[int, int, int, int]
"""Partition, ledger id, entry id, batch index."""


@dataclass
class Scene:
    """What a round works with. `topic` and `folder` are new ones, and `chance` is the only source of randomness."""

    server: Server
    client: pulsar.Client
    chance: random.Random
    folder: Path
    topic: str
    store: StoreServer | None = None
    """Where the job's files are, if they are not in `folder`."""
    _seen: dict[str, dict[EntryId, Any]] = field(default_factory=dict)

    def place(self) -> list[str]:
        return ["--service-url", self.server.broker_url, "--admin-url", self.server.web_url]

    def path(self, name: str) -> str:
        """Returns the path or URL of one of the job's folders."""
        return str(self.folder / name) if self.store is None else self.store.url(f"{self.folder.name}/{name}")

    def start(self, job: str, arguments: Sequence[str]) -> JobProcess:
        """Starts the job."""
        environment = os.environ if self.store is None else self.store.environment
        return JobProcess(job, [*self.place(), *arguments], environment)

    def undisturbed(self, job: str, arguments: Sequence[str]) -> dict[str, Any]:
        """Runs the job without kills, to compare with, and returns its outcome. Raises AssertionError when it fails."""
        with self.start(job, arguments) as process:
            return process.result()

    def maybe_trimmed(self, subscription: str) -> None:
        """In half of the rounds, lets the server delete a ledger as soon as the subscription has passed it, from before
        the first message on. Then `contents` has to be called whenever messages were written."""
        if self.chance.random() < 0.5:
            self.client.subscribe(self.topic, subscription, initial_position=pulsar.InitialPosition.Earliest).close()
            Admin(self.server).post(_admin_path(self.topic, "retention"), NO_RETENTION)

    def contents(self, topic: str) -> list[Any]:
        """Returns all messages, partition after partition, as the official client read them now or in an earlier
        call."""
        seen = self._seen.setdefault(topic, {})
        seen.update((entry_id(each.message_id()), each) for each in contents(self.client, topic))
        return [seen[each] for each in sorted(seen)]


def entry_id(message_id: pulsar.MessageId) -> EntryId:
    return message_id.partition(), message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


def partitions_of(topic: str) -> str:
    """Returns the path at which the admin interface has the number of a topic's partitions."""
    return _admin_path(topic, "partitions")


def _admin_path(topic: str, what: str) -> str:
    return f"{topic.replace('://', '/', 1)}/{what}"


class Rounds(Protocol):
    """What a job needs for a round. Each round has a new object."""

    while_killed: Sequence[str]
    """Returns further options for the runs that are killed, such as an interval as trigger and small batches. The last
    run of a round is without them, because it has to end by itself."""

    def prepare(self, scene: Scene) -> None:
        """Writes the topic's messages, or the first part of them."""

    def arguments(self) -> list[str]:
        """Returns the job's options, but for the service's URLs and --progress."""

    def meanwhile(self, scene: Scene) -> None:
        """Is called after each kill, when a server is running. It may write more messages."""

    def judge(self, outcome: dict[str, Any]) -> list[str]:
        """Returns a sentence for each thing that is wrong after the job ended well. `outcome` is what its last run
        printed."""


@dataclass
class Report:
    """What happened in a round: what was killed, in order (`kills`), how often the job was started (`starts`), and how
    many of these runs failed after their last kill (`failures`)."""

    job: str
    number: int
    kills: list[str] = field(default_factory=list)
    starts: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        verdict = "; ".join(self.complaints) or "as it should be"
        bad = f" ({len(self.failures)} ended badly)" if self.failures else ""
        return (
            f"{self.job} round {self.number}: killed {', '.join(self.kills)}; "
            f"{self.starts} starts{bad}, {self.seconds:.0f} s: {verdict}"
        )


def play(job: str, rounds: Rounds, scene: Scene, number: int) -> Report:
    """Runs one round."""
    report = Report(job, number)
    began = time.monotonic()
    rounds.prepare(scene)
    for _ in range(scene.chance.randint(1, KILLS_MAX)):
        _disturb(job, rounds, scene, report)
        if not scene.server.is_running:
            scene.server.start()
        rounds.meanwhile(scene)
    outcome = _to_the_end(job, rounds, scene, report)
    if outcome is not None:
        report.complaints += rounds.judge(outcome)
    report.seconds = round(time.monotonic() - began, 1)
    return report


def _disturb(job: str, rounds: Rounds, scene: Scene, report: Report) -> None:
    """Starts the job, and kills what the round has chosen. A server that was killed alone is started again, and the job
    goes on or fails."""
    chance = scene.chance
    victim = chance.choice(VICTIMS)
    early = chance.random() < EARLY_KILLS
    report.starts += 1
    with scene.start(job, [*rounds.arguments(), *rounds.while_killed]) as process:
        running = early or process.until_working()
        if running and process.for_a_while(chance, WORK_SECONDS):
            report.kills.append(f"{victim} early" if early else victim)
        else:
            report.kills.append("nobody")  # the job ended before the moment of the kill
            return
        if victim != "driver":
            scene.server.kill()
        if victim != "server":
            process.kill()
            return
        process.for_a_while(chance, WORK_SECONDS / 2)
        scene.server.start()
        process.for_a_while(chance, WORK_SECONDS)


def _to_the_end(job: str, rounds: Rounds, scene: Scene, report: Report) -> dict[str, Any] | None:
    """Starts the job until it ends well, and returns its outcome; None when it never does."""
    for _ in range(ATTEMPTS_MAX):
        report.starts += 1
        with scene.start(job, rounds.arguments()) as process:
            try:
                return process.result()
            except AssertionError as error:
                report.failures.append(str(error)[-2000:])
    report.complaints.append(f"it ended badly {ATTEMPTS_MAX} times: {report.failures[-1]}")
    return None


def rounds_of(job: str) -> Callable[[], Rounds]:
    """Returns the job's class. Raises ModuleNotFoundError when there is none."""
    made: Callable[[], Rounds] = import_module(f"compat_tests.spark.{MODULES[job]}").Rounds
    return made


@contextlib.contextmanager
def stage(folder: Path) -> Iterator[tuple[Server, pulsar.Client]]:
    """Gives a server with deduplication and an official client of it."""
    folder.mkdir(parents=True, exist_ok=True)
    with Server(folder, settings=SETTINGS) as server:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
        client = pulsar.Client(server.broker_url, logger=logger)
        yield server, client
        client.close()


def run(
    jobs: dict[str, Callable[[], Rounds]], count: int, seed: int, folder: Path, store: StoreServer | None = None
) -> Iterator[Report]:
    """Yields the reports of all rounds of all jobs. When the server's log holds errors, the last report is about
    these."""
    with stage(folder / "server") as (server, client):
        for job, make in jobs.items():
            for number in range(1, count + 1):
                own = folder / f"{job}-{number}"
                own.mkdir(parents=True)
                topic = f"persistent://public/default/{job}-{number}"
                chance = random.Random(f"{seed} {job} {number}")
                yield play(job, make(), Scene(server, client, chance, own, topic, store), number)
        errors = server.error_lines()
    if errors:
        yield Report("server", 0, complaints=[f"{len(errors)} error lines in its log, the first: {errors[0]}"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.spark.kill_rounds",
        description="Kills Spark jobs, and the server under them, at random moments, and judges what they made.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--job", choices=[*MODULES, "all"], default="all", help="default: all")
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="of each job; default 5, about a minute each"
    )
    parser.add_argument("--store", choices=["local", *STORES], default="local", help="where the jobs' files are")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="repeats the choices of an earlier run")
    parser.add_argument("--folder", type=Path, default=None, metavar="DIR", help="keeps tables and logs there")
    parser.add_argument("--json", action="store_true", help="print the result as JSON; lines of progress go to stderr")
    options = parser.parse_args(argv)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    names = list(MODULES) if options.job == "all" else [options.job]
    if options.store != "local":
        names = [name for name in names if name in ON_STORES]
        if not names:
            parser.error(f"--store {options.store}: {options.job} needs a local checkpoint")
    try:
        jobs = {name: rounds_of(name) for name in names}
    except ModuleNotFoundError as error:
        parser.error(f"nobody wrote {error.name} yet")
    print(f"{options.rounds} rounds of {', '.join(names)}, seed {seed}", file=sys.stderr, flush=True)
    reports: list[Report] = []
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kill-rounds-")))
        store = stack.enter_context(STORES[options.store]()) if options.store in STORES else None
        for report in run(jobs, options.rounds, seed, folder, store):
            reports.append(report)
            print(report.line(), file=sys.stderr, flush=True)
    complaints = sum(len(report.complaints) for report in reports)
    if options.json:
        print(json.dumps({"seed": seed, "complaints": complaints, "rounds": [asdict(each) for each in reports]}))
    else:
        print(f"{complaints} complaints, seed {seed}" if complaints else f"nothing broke, seed {seed}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
