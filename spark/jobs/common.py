"""What all jobs share: the options of source and run, the session, progress for people and programs, the last word.

A job may read through this project's data source (`--source python`) or through the published connector's jar
(`--source connector`, see `connector`): both call themselves `pulsar` and have the same columns.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.jobs.alone import hold, let_go
from magnetar.spark.jobs.connector import check_versions, connector_options, end_java
from magnetar.spark.jobs.older import complete
from magnetar.spark.jobs.precheck import check_checkpoint, check_place, check_topics
from magnetar.spark.jobs.progress import Progress, Teller
from magnetar.spark.jobs.sentences import in_job_options, told
from magnetar.spark.source.checkpoint import Checkpoint, acknowledge
from magnetar.spark.source.message_id import BEFORE_ALL, Bound
from magnetar.spark.source.options import LATEST, Options, place_of, read_options
from magnetar.spark.source.planner import Planner

AVAILABLE_NOW = "available-now"
INTERVAL = re.compile(r"(interval\s+)?(\d+\s*(millisecond|second|minute|hour|day|week)s?\s*)+", re.IGNORECASE)
AVAILABLE_NOW_SETTING = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
"""Without it Spark 4.1 runs one batch with sources of Python's: after a kill only the one that was under way."""
CONNECTOR_SETTING = "spark.magnetar.connector"
"""Of a session in which a job reads through the connector."""
SPEAK_THEMSELVES = ("replay", "audit")
"""Jobs that ask brokers and the admin interface for what no connector gives: `--source connector` is refused."""
INTERRUPTED = "interrupted; the same command goes on from here"
AUTH_OPTIONS = {
    "auth_params": "pulsar.client.authParams",
    "tls_trust_certs": "pulsar.client.tlsTrustCertsFilePath",
}


class JobFailed(Exception):
    """The sentence that a person reads; the job ends with exit code 1."""


@dataclass
class Outcome:
    """What the job prints at its end. `problems`: one sentence a check that failed."""

    job: str
    read: int = 0
    written: int = 0
    skipped: int = 0
    parked: int = 0
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def parser(job: str, description: str, examples: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"magnetar spark {job}",
        description=description,
        epilog=f"examples:\n{examples}\nexit codes: 0 done, 1 failed or a check failed, 2 wrong usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--service-url", required=True, metavar="URL", help="pulsar://host:port or pulsar+ssl://…")
    made.add_argument("--admin-url", default="", metavar="URL", help="http://host:port; needed for limits a trigger")
    made.add_argument("--auth-params", default="", metavar="TEXT", help="token:… or file:///path of a token")
    made.add_argument("--tls-trust-certs", default="", metavar="FILE", help="certificates to trust")
    made.add_argument("--progress", choices=["text", "json", "none"], default="text", help="on stderr; default text")
    made.add_argument("--master", default="local[*]", help="Spark's master when not run by spark-submit")
    made.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Spark session; spark.log.level=ERROR shows the stacks of its errors",
    )
    if job in SPEAK_THEMSELVES:
        made.add_argument(
            "--source", action=NoConnector, choices=["python", "connector"], default="python", help=argparse.SUPPRESS
        )
    return made


class NoConnector(argparse.Action):
    """`--source` of a job that is not read through Spark alone."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if values != "python":
            job = parser.prog.rpartition(" ")[2]
            parser.error(f"--source {values}: {job} speaks to the service itself and needs no connector; leave it out")


def add_source(made: argparse.ArgumentParser, *, starting: str = "earliest") -> None:
    made.add_argument("--source", choices=["python", "connector"], default="python", help="default: python")
    topics = made.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", metavar="T", help="one topic")
    topics.add_argument("--topics", metavar="T,T", help="several")
    topics.add_argument("--pattern", metavar="RE", help="all whose full name matches")
    made.add_argument("--starting", default=starting, help=f"earliest, latest or a JSON map; default {starting}")
    made.add_argument(
        "--subscription",
        default="",
        metavar="NAME",
        help="keeps what is unread; what is read is acknowledged, and may be deleted",
    )
    made.add_argument("--fail-on-data-loss", choices=["true", "false"], default="true")


def add_stream(made: argparse.ArgumentParser) -> None:
    made.add_argument("--checkpoint", required=True, metavar="DIR", help="where a restart goes on from")
    made.add_argument(
        "--trigger",
        default=AVAILABLE_NOW,
        metavar="WHEN",
        help=f"{AVAILABLE_NOW} (default), or an interval: '10 seconds'",
    )
    made.add_argument(
        "--max-messages", type=int, default=0, metavar="N", help="at most so many a batch (not available-now)"
    )
    made.add_argument(
        "--max-bytes", type=int, default=0, metavar="N", help="at most so many a batch (not available-now)"
    )


def session(arguments: argparse.Namespace, job: str, needs: str = "") -> SparkSession:
    """The running session of spark-submit, or one of its own; what is wrong with the options, the service or the topics
    is said before Java starts. `needs`: see `check_versions`. Raises what `precheck` raises."""
    source = getattr(arguments, "source", "python")
    check_versions(source, pyspark.__version__, needs)
    if hasattr(arguments, "trigger"):
        check_stream(arguments)
    check_place(place_options(arguments), tell=arguments.progress == "text")
    if hasattr(arguments, "pattern"):
        given = source_options(arguments)
        check_topics(given, endless=arguments.trigger != AVAILABLE_NOW)
        check_checkpoint(given, Checkpoint(arguments.checkpoint))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"magnetar-{job}")
    if SparkSession.getActiveSession() is None and "SPARK_ENV_LOADED" not in os.environ:
        builder = builder.master(arguments.master)
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.log.level", "FATAL").config("spark.driver.memory", "1g")
        # streaming queries do not adapt their shuffles: Spark's 200 tasks take far longer than a small batch
        builder = builder.config("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
    builder = builder.config("spark.sql.session.timeZone", "UTC").config(AVAILABLE_NOW_SETTING, "true")
    for pair in arguments.spark_conf:
        name, equals, value = pair.partition("=")
        if not equals:
            raise JobFailed(f"--spark-conf {pair}: expected KEY=VALUE")
        builder = builder.config(name, value)
    teller = Teller(arguments.progress, job)
    teller.state("starting", "starting Spark, which takes some seconds …")
    made = builder.getOrCreate()
    teller.state("running", f"Spark {made.version} runs")
    complete()
    made.conf.set(CONNECTOR_SETTING, str(source == "connector").lower())
    if source == "python":
        from magnetar.spark.source import PulsarDataSource

        made.dataSource.register(PulsarDataSource)
    return made


def place_options(arguments: argparse.Namespace) -> dict[str, str]:
    given = {"service.url": arguments.service_url, "admin.url": arguments.admin_url}
    for name, option in AUTH_OPTIONS.items():
        given[option] = getattr(arguments, name)
    if given["pulsar.client.authParams"]:
        given["pulsar.client.authPluginClassName"] = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
    return {name: value for name, value in given.items() if value}


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    given = place_options(arguments)
    given |= {"startingOffsets": arguments.starting, "failOnDataLoss": arguments.fail_on_data_loss}
    for name, value in (("topic", arguments.topic), ("topics", arguments.topics), ("topicsPattern", arguments.pattern)):
        if value:
            given[name] = value
    if arguments.subscription:
        given["predefinedSubscription"] = arguments.subscription
    return given


def check_stream(arguments: argparse.Namespace) -> None:
    """Raises JobFailed for limits and intervals that no query takes."""
    if arguments.trigger == AVAILABLE_NOW:
        if arguments.max_messages or arguments.max_bytes:
            # Spark 4.1 plans an available-now run with one question: a limit would end it
            raise JobFailed("--max-messages and --max-bytes need --trigger with an interval")
    elif not INTERVAL.fullmatch(arguments.trigger):
        raise JobFailed(f"--trigger {arguments.trigger}: expected {AVAILABLE_NOW}, or an interval as '10 seconds'")


def stream(made: SparkSession, arguments: argparse.Namespace, **more: str) -> DataFrame:
    given = source_options(arguments) | more
    if arguments.trigger != AVAILABLE_NOW:
        if arguments.max_messages:
            given["maxOffsetsPerTrigger"] = str(arguments.max_messages)
        if arguments.max_bytes:
            given["maxBytesPerTrigger"] = str(arguments.max_bytes)
    if arguments.source == "connector":
        given = connector_options(given)
    hold(Checkpoint(arguments.checkpoint).folder)
    return made.readStream.format("pulsar").options(**given).load()


def trigger(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"availableNow": True} if arguments.trigger == AVAILABLE_NOW else {"processingTime": arguments.trigger}


def ends_now(arguments: argparse.Namespace) -> dict[str, Bound]:
    """What an available-now run has to reach: the last message of each partition at its start."""
    if arguments.trigger != AVAILABLE_NOW:
        return {}
    planner = Planner(read_options(source_options(arguments), streaming=True))
    try:
        return {name: planner.last(name) for name in planner.partitions()}
    finally:
        planner.close()


def check_reached(arguments: argparse.Namespace, ends: Mapping[str, Bound], outcome: Outcome) -> None:
    """The checkpoint lies at the ends, or behind them."""
    if ends:
        committed = Checkpoint(arguments.checkpoint).committed()
        if not committed and arguments.starting == LATEST:
            return  # nothing came since the query was begun
        for name, end in ends.items():
            if committed.get(name, BEFORE_ALL)[:2] < end[:2]:
                outcome.problems.append(f"{name} was read up to {committed.get(name)} instead of {end}")


def acknowledge_committed(arguments: argparse.Namespace) -> None:
    """The last batch of an available-now run, which no later batch acknowledges."""
    if arguments.subscription and arguments.source == "python" and arguments.trigger == AVAILABLE_NOW:
        place = place_of(Options(place_options(arguments)))
        acknowledge(place, arguments.subscription, Checkpoint(arguments.checkpoint).committed())


def run_query(
    frame: DataFrame,
    batch: Callable[[DataFrame, int], None],
    arguments: argparse.Namespace,
    ends: Mapping[str, Bound],
    outcome: Outcome,
) -> None:
    """A job's streaming query, to its end or Ctrl-C, a problem unless the run was to be endless; its last batch is
    acknowledged. Raises the query's error."""
    Checkpoint(arguments.checkpoint).sweep()
    query = (
        frame.writeStream.foreachBatch(batch)
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(**trigger(arguments))
        .start()
    )
    progress = Progress(Teller(arguments.progress, outcome.job))
    try:
        progress.watch(query)
        check_reached(arguments, ends, outcome)
    except KeyboardInterrupt:
        query.stop()
        if arguments.trigger == AVAILABLE_NOW:
            outcome.problems.append(INTERRUPTED)
    finally:
        outcome.read += progress.read
    acknowledge_committed(arguments)


def finish(outcome: Outcome, began: float, how: str) -> int:
    """Prints what was done; returns the exit code."""
    outcome.seconds = round(time.monotonic() - began, 3)
    if how == "json":
        print(json.dumps(asdict(outcome), default=str), flush=True)
    else:
        print(
            f"{outcome.job}: read {outcome.read:,}, wrote {outcome.written:,}, skipped {outcome.skipped:,}, "
            f"parked {outcome.parked:,} in {outcome.seconds:.1f} s"
        )
        for name, value in outcome.details.items():
            print(f"  {name}: {value}")
    for problem in outcome.problems:
        print(f"check failed: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0


def leave(code: int) -> int:
    """At the end of a job; see `end_java`."""
    running = SparkSession.getActiveSession() if "SPARK_ENV_LOADED" in os.environ else None
    if running is not None and running.conf.get(CONNECTOR_SETTING, "") == "true":
        end_java(running, code)
    return code


def guarded(job: str, run: Any, argv: Sequence[str]) -> int:
    """Runs a job's body; faults become one sentence."""
    try:
        code = leave(run(argv))
    except Exception as error:
        said = str(error) if isinstance(error, (JobFailed, ValueError, OSError)) else told(error)
        if said is None:
            raise
        print(f"magnetar spark {job}: {in_job_options(said)}", file=sys.stderr)
        return 1
    finally:
        let_go()
    return code
