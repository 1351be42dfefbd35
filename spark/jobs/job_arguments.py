"""The command-line options that jobs share, and the data source's options that follow from them.

A job may read through this project's data source (`--source python`) or through the published connector's jar
(`--source connector`, see `published_connector`). Both data sources have the format name `pulsar` and give the same
columns.
"""

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.sql_text_rules import unclosed
from magnetar.spark.source.read_limits import SPARK_GIVES_LIMITS

AVAILABLE_NOW = "available-now"
INTERVAL = re.compile(r"(interval\s+)?(\d+\s*(millisecond|second|minute|hour|day|week)s?\s*)+", re.IGNORECASE)
WITHOUT_CONNECTOR = ("replay", "audit")
"""These jobs refuse `--source connector`, because the jobs need answers of brokers and of the admin API that no
connector provides."""
AUTH_OPTIONS = {
    "auth_plugin": "pulsar.client.authPluginClassName",
    "auth_params": "pulsar.client.authParams",
    "tls_trust_certs": "pulsar.client.tlsTrustCertsFilePath",
    "tls_cert": "pulsar.client.tlsCertificateFilePath",
    "tls_key": "pulsar.client.tlsKeyFilePath",
}


SQL_OPTIONS = {"event_time": "--event-time", "filter": "--filter", "json_schema": "--json-schema", "key": "--key"}


class JobParser(argparse.ArgumentParser):
    """Says what is wrong with the options in one line. A job has so many options that their list, which argparse puts
    before its errors, would fill the screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser(job: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Returns a parser with the options that all jobs have."""
    made = JobParser(
        prog=f"magnetar spark {job}",
        description=description,
        epilog=f"examples:\n{examples}\nexit codes: 0 done, 1 failed or a check failed, 2 wrong usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--service-url", required=True, metavar="URL", help="pulsar://host:port, pulsar+ssl://… or http(s)://…"
    )
    made.add_argument("--admin-url", default="", metavar="URL", help="http://host:port of the admin interface")
    made.add_argument(
        "--auth-plugin", default="", metavar="CLASS", help="AuthenticationToken (default), …Basic, …OAuth2 or …Tls"
    )
    made.add_argument(
        "--auth-params", default="", metavar="TEXT", help="token:…, file:///path of a token, or what the plugin takes"
    )
    made.add_argument("--tls-trust-certs", default="", metavar="FILE", help="certificates to trust")
    made.add_argument("--tls-cert", default="", metavar="FILE", help="the client's certificate")
    made.add_argument("--tls-key", default="", metavar="FILE", help="the key of the client's certificate")
    made.add_argument("--progress", choices=["text", "json", "none"], default="text", help="on stderr; default text")
    made.add_argument("--master", default="local[*]", help="Spark's master when not run by spark-submit")
    made.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Spark session; spark.log.level=ERROR shows the stacks of its errors",
    )
    if job in WITHOUT_CONNECTOR:
        made.add_argument(
            "--source", action=NoConnector, choices=["python", "connector"], default="python", help=argparse.SUPPRESS
        )
    return made


class NoConnector(argparse.Action):
    """The argparse action of `--source` in the jobs of WITHOUT_CONNECTOR: it refuses every value but `python`."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if values != "python":
            job = parser.prog.rpartition(" ")[2]
            parser.error(f"--source {values}: {job} speaks to the service itself and needs no connector; leave it out")


def add_source(made: argparse.ArgumentParser, *, starting: str = "earliest") -> None:
    """Adds the options of jobs that read topics by a query. The options name the topics and the place where the query
    begins."""
    made.add_argument("--source", choices=["python", "connector"], default="python", help="default: python")
    topics = made.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", metavar="T", help="one topic")
    topics.add_argument("--topics", metavar="T,T", help="several")
    topics.add_argument("--pattern", metavar="RE", help="all whose full name matches")
    made.add_argument(
        "--starting",
        default=starting,
        metavar="WHERE",
        help=f"where a new checkpoint begins: earliest, latest or JSON of partition to id; default {starting}",
    )
    made.add_argument(
        "--subscription",
        default="",
        metavar="NAME",
        help="keeps what is unread; what is read is acknowledged, and may be deleted",
    )
    made.add_argument(
        "--fail-on-data-loss",
        choices=["true", "false"],
        default="true",
        help="false: go on when messages were deleted before they were read; default true",
    )


def add_stream(made: argparse.ArgumentParser) -> None:
    """Adds the options of jobs whose query streams: checkpoint, trigger, limits."""
    made.add_argument("--checkpoint", required=True, metavar="DIR", help="where a restart goes on from")
    made.add_argument(
        "--trigger",
        default=AVAILABLE_NOW,
        metavar="WHEN",
        help=f"{AVAILABLE_NOW} (default), or an interval: '10 seconds'",
    )
    add_number(made, "--max-messages", int, metavar="N", help="at most so many messages a batch")
    add_number(made, "--max-bytes", int, metavar="N", help="at most so many stored bytes a batch")


def add_storage(made: argparse.ArgumentParser) -> None:
    """Adds the option of jobs whose paths may be URLs."""
    made.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for URLs, such as aws_endpoint=…; logins belong into the environment, where other users do not see them",
    )


def add_number(
    made: argparse.ArgumentParser,
    option: str,
    kind: type[int] | type[float],
    *,
    default: float | None = 0,
    metavar: str,
    help: str,
) -> None:
    """Adds an option that takes a number of at least 0, and a whole one if `kind` is int. For any other text parsing
    raises JobFailed: argparse's own error would end the job as wrong usage, with exit code 2, while a value that a job
    cannot use ends it with exit code 1."""
    wanted = "a whole number" if kind is int else "a number"

    def number(text: str) -> float:
        try:
            given = kind(text)
        except ValueError:
            given = -1
        if not 0 <= given < math.inf:
            raise JobFailed(f"{option}: '{text}' is not {wanted} of at least 0")
        return given

    made.add_argument(option, type=number, default=default, metavar=metavar, help=help)


def service_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the data source's options that say where and how to connect."""
    given = {"service.url": arguments.service_url, "admin.url": arguments.admin_url}
    for name, option in AUTH_OPTIONS.items():
        given[option] = getattr(arguments, name)
    plugin = arguments.auth_plugin or ("AuthenticationToken" if arguments.auth_params else "")
    if plugin.startswith("Authentication"):
        package = "oauth2." if plugin == "AuthenticationOAuth2" else ""
        plugin = f"org.apache.pulsar.client.impl.auth.{package}{plugin}"
    given["pulsar.client.authPluginClassName"] = plugin
    return {name: value for name, value in given.items() if value}


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the data source's options for reading what the arguments name."""
    given = service_options(arguments)
    given |= {"startingOffsets": arguments.starting, "failOnDataLoss": arguments.fail_on_data_loss}
    for name, value in (("topic", arguments.topic), ("topics", arguments.topics), ("topicsPattern", arguments.pattern)):
        if value:
            given[name] = value
    if arguments.subscription:
        given["predefinedSubscription"] = arguments.subscription
    return given


def stream_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the data source's options for a streaming query, with the limits of its batches."""
    given = source_options(arguments)
    for name, value in (("maxOffsetsPerTrigger", arguments.max_messages), ("maxBytesPerTrigger", arguments.max_bytes)):
        if value:
            given[name] = str(value)
    return given


def check_stream(arguments: argparse.Namespace) -> None:
    """Raises JobFailed for limits and intervals that a query cannot have."""
    if arguments.trigger == AVAILABLE_NOW:
        keeps_limits = SPARK_GIVES_LIMITS and arguments.source == "python"
        if (arguments.max_messages or arguments.max_bytes) and not keeps_limits:
            # Spark then asks for the end of an available-now run once only, so the run would end at the limit
            raise JobFailed("--max-messages and --max-bytes need --trigger with an interval, or Spark 4.2 and newer")
    elif not INTERVAL.fullmatch(arguments.trigger):
        raise JobFailed(f"--trigger {arguments.trigger}: expected {AVAILABLE_NOW}, or an interval as '10 seconds'")


def check_sql(arguments: argparse.Namespace) -> None:
    """Raises JobFailed for SQL whose quotes or brackets are not closed. Other faults of SQL only Spark's parser
    finds, so a job tells them after Java has started."""
    texts = {option: getattr(arguments, name, "") for name, option in SQL_OPTIONS.items()}
    texts |= {f"--transform {name}": sql for name, sql in getattr(arguments, "transform", {}).items()}
    for option, sql in texts.items():
        if fault := unclosed(sql):
            raise JobFailed(f"{option}: {fault} in: {sql}")


def chosen_columns(columns: str, known: Sequence[str]) -> list[str]:
    """Returns the columns that `--columns` names, or all that are known. Raises JobFailed for one that the topic does
    not have."""
    wanted = [name.strip() for name in columns.split(",") if name.strip()]
    missing = sorted(set(wanted) - set(known))
    if missing:
        raise JobFailed(f"--columns {', '.join(missing)}: the topic has {', '.join(known)}")
    return wanted or list(known)
