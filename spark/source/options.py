"""The options that a user may set with `.option(…)`: names, defaults, checks.

Names are those of the published Pulsar connector (org.apache.spark.sql.pulsar.PulsarOptions) or, where the connector
has no such option, of Spark's Kafka source. Case does not matter. An unknown name is an error, because a misspelt limit
would go unnoticed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
from magnetar.server.tools.connection.oauth2 import OAuth2Client, oauth2_client
from magnetar.spark.source.client.broker_connection import ClientLogin
from magnetar.spark.source.client.pulsar_client import service_urls, topic_pattern
from magnetar.spark.source.columns.value_columns import BadValueMode, BadValues
from magnetar.spark.source.decoding.compression import NAMES as COMPRESSIONS
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, bound_of_value
from pulsar_proto.names import TopicName

TOKEN_PLUGINS = ("org.apache.pulsar.client.impl.auth.AuthenticationToken", "token", "pulsar.AuthenticationToken")
BASIC_PLUGINS = ("org.apache.pulsar.client.impl.auth.AuthenticationBasic", "basic", "pulsar.AuthenticationBasic")
OAUTH2_PLUGINS = (
    "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2", "oauth2", "pulsar.AuthenticationOauth2",
)  # fmt: skip
TLS_PLUGINS = ("org.apache.pulsar.client.impl.auth.AuthenticationTls", "tls", "pulsar.AuthenticationTls")

KNOWN = (
    "service.url", "admin.url", "topic", "topics", "topicsPattern", "startingOffsets", "endingOffsets", "startingTime",
    "endingTime", "startingOffsetsByTimestampStrategy", "failOnDataLoss", "pollTimeoutMs", "predefinedSubscription",
    "subscriptionPrefix", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "cores", "minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition",
    "allowDifferentTopicSchemas", "waitingForNonExistedTopic", "mode", "columnNameOfCorruptRecord", "producerName",
    "columns", "maxPublishTimeDisorder", "rawColumns", "rowOrder", "maxMessagesPerSecond", "path", "checkpointLocation",
    "pulsar.client.authPluginClassName", "pulsar.client.authParams",
    "pulsar.client.tlsTrustCertsFilePath", "pulsar.client.tlsCertificateFilePath", "pulsar.client.tlsKeyFilePath",
    "pulsar.client.tlsHostnameVerificationEnable",
    "pulsar.client.tlsAllowInsecureConnection", "pulsar.client.operationTimeoutMs", "pulsar.reader.receiverQueueSize",
    "pulsar.reader.readCompacted", "pulsar.reader.subscriptionName", "pulsar.producer.compressionType",
    "pulsar.producer.batchingMaxMessages", "pulsar.producer.batchingEnabled", "pulsar.producer.sendTimeoutMs",
    "pulsar.producer.batcherBuilder", "pulsar.producer.chunkingEnabled",
)  # fmt: skip

BATCHERS = ("DEFAULT", "KEY_BASED")
"""The names of Java's two BatcherBuilders."""
TIME_UNITS = {"": 0.001, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}

EARLIEST, LATEST = "earliest", "latest"
LATEST_LEDGER = 2**63 - 1
"""The ledger of Java's MessageId.latest, which ids in options may name."""
NAMED_PLACES = {EARLIEST: BEFORE_ALL, LATEST: Bound(LATEST_LEDGER, LATEST_LEDGER)}
"""What a map of partitions to ids may also say."""
QueryEdge = str | Mapping[str, Bound]
"""The beginning or end of a query: `earliest`, `latest`, or for each partition a message id."""


class BadOption(ValueError):
    """An option is missing, unknown or makes no sense. The text names the option."""


class Options:
    """Looks up the options that a user gave, by name and without regard to case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Takes a user's options. Raises BadOption for unknown names."""
        known = {name.lower(): name for name in KNOWN}
        unknown = sorted(name for name in given if name.lower() not in known)
        if unknown:
            raise BadOption(f"unknown option {', '.join(unknown)}; known are {', '.join(KNOWN)}")
        self._given = {name.lower(): value for name, value in given.items()}

    def text(self, name: str, default: str = "") -> str:
        assert name in KNOWN, name
        return str(self._given.get(name.lower(), default)).strip()

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        text = self.text(name, str(default))
        if not text.lstrip("-").isdigit() or int(text) < least:
            raise BadOption(f"option {name}: '{text}' is not a whole number of at least {least}")
        return int(text)

    def seconds(self, name: str, default: str) -> float:
        """Returns a time such as `15m`, `90 s` or `500ms` in seconds. As in Spark (JavaUtils.timeStringAsMs), a number
        without a unit counts milliseconds."""
        text = self.text(name, default)
        parsed = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
        if parsed is None or parsed[2] not in TIME_UNITS:
            raise BadOption(f"option {name}: '{text}' is not a time such as 500ms, 90s, 15m, 2h or 1d")
        return int(parsed[1]) * TIME_UNITS[parsed[2]]

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise BadOption(f"option {name}: '{text}' is neither true nor false")
        return text == "true"

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        text = self.text(name, default)
        found = next((each for each in allowed if each.lower() == text.lower()), None)
        if found is None:
            raise BadOption(f"option {name}: '{text}' is none of {', '.join(allowed)}")
        return found


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The addresses of the service, and the credentials for connecting to it."""

    service_url: str
    admin_url: str
    login: ClientLogin


def address_of(options: Options) -> ServiceAddress:
    """Returns the address in the options. Raises BadOption when the service URL is missing or malformed, or the
    authentication is not supported."""
    url = options.text("service.url")
    if not url:
        raise BadOption("option service.url is missing: pulsar://host:port")
    try:
        service_urls(url)
    except ValueError as error:
        raise BadOption(str(error)) from error
    login = ClientLogin(
        **_credentials(options),
        trust_certs_file=options.text("pulsar.client.tlsTrustCertsFilePath") or None,
        verify_hostname=options.flag("pulsar.client.tlsHostnameVerificationEnable", default=True),
        allow_insecure=options.flag("pulsar.client.tlsAllowInsecureConnection", default=False),
        timeout_seconds=options.number("pulsar.client.operationTimeoutMs", 30_000, least=1) / 1000,
    )
    return ServiceAddress(url, options.text("admin.url"), login)


def _credentials(options: Options) -> dict[str, Any]:
    """Returns the fields of ClientLogin that say who the client is. `authParams` has the forms of Java's plugins:
    AuthenticationToken takes `token:…`, `file:///…` or the token itself, AuthenticationBasic JSON of userId and
    password, AuthenticationOAuth2 JSON of issuerUrl, privateKey and audience, and AuthenticationTls
    `tlsCertFile:…,tlsKeyFile:…` or nothing, when the options of TLS name the files."""
    plugin = options.text("pulsar.client.authPluginClassName")
    params = options.text("pulsar.client.authParams")
    files = {
        "certificate_file": options.text("pulsar.client.tlsCertificateFilePath") or None,
        "key_file": options.text("pulsar.client.tlsKeyFilePath") or None,
    }
    if plugin in TLS_PLUGINS:
        return {**files, **_certificate(params, files), "by_certificate": True}
    if plugin in BASIC_PLUGINS:
        return {**files, "basic": _user_and_password(params)}
    if plugin in OAUTH2_PLUGINS:
        return {**files, "oauth2": _issuers_client(params)}
    if plugin and plugin not in TOKEN_PLUGINS:
        plugins = (TOKEN_PLUGINS, BASIC_PLUGINS, OAUTH2_PLUGINS, TLS_PLUGINS)
        known = ", ".join(each[0].rpartition(".")[2] for each in plugins)
        raise BadOption(f"option pulsar.client.authPluginClassName: {plugin} is not supported; those are {known}")
    if params.startswith("file:"):
        return {**files, "token_file": "/" + params.removeprefix("file:").lstrip("/")}
    return {**files, "token": params.removeprefix("token:")} if params or plugin else files


def _user_and_password(params: str) -> str:
    """Returns `user:password`. Raises BadOption for other parameters, without showing them."""
    try:
        given = json.loads(params)
        return f"{given['userId']}:{given['password']}"
    except (ValueError, TypeError, KeyError):
        raise BadOption(
            'option pulsar.client.authParams: AuthenticationBasic needs {"userId": "…", "password": "…"}'
        ) from None


def _issuers_client(params: str) -> OAuth2Client:
    """Returns the client that an issuer of OAuth 2.0 knows. Raises BadOption, without showing a secret."""
    try:
        given = json.loads(params)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise BadOption(
            'option pulsar.client.authParams: AuthenticationOAuth2 needs {"issuerUrl": "…", "privateKey": "file:///…"}'
        )
    try:
        return oauth2_client(given)
    except ConnectionSettingsError as error:
        raise BadOption(f"option pulsar.client.authParams: {str(error).removeprefix('authParams: ')}") from None


def _certificate(params: str, files: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Returns the files of the client's certificate and key. Raises BadOption when one of them is named nowhere."""
    pairs = dict(part.split(":", 1) for part in params.split(",") if ":" in part)
    found = {
        "certificate_file": pairs.get("tlsCertFile", files["certificate_file"]),
        "key_file": pairs.get("tlsKeyFile", files["key_file"]),
    }
    if not all(found.values()):
        raise BadOption(
            "option pulsar.client.authParams: AuthenticationTls needs tlsCertFile:…,tlsKeyFile:…, "
            "or the options tlsCertificateFilePath and tlsKeyFilePath"
        )
    return found


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a query that reads. A limit of 0 means no limit."""

    address: ServiceAddress
    topics: tuple[str, ...]
    pattern: str
    starting: QueryEdge
    ending: QueryEdge
    starting_time: int | Mapping[str, int] | None
    ending_time: int | Mapping[str, int] | None
    no_message_at_time: str
    fail_on_data_loss: bool
    poll_timeout_seconds: float
    subscription: str
    reader_name: str
    max_messages: int
    max_bytes: int
    min_messages: int
    max_delay_seconds: float
    cores: int
    min_partitions: int
    max_messages_per_task: int
    max_bytes_per_partition: int
    different_schemas: bool
    wait_for_topics: bool
    bad_values: BadValues
    permits: int
    read_compacted: bool
    columns: tuple[str, ...]
    """The columns that the query has, in this order; empty for all."""
    disorder_ms: int
    """How much earlier a message may have been published than any message before it in its partition."""
    raw_columns: bool
    """Whether the query has the additional columns that a copy of a message needs: the value's bytes, the version of
    its schema, the ordering key."""


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Returns the checked options of a query that reads. Raises BadOption for an option that makes no sense."""
    options = Options(given)
    address = address_of(options)
    topics, pattern = _topics(options)
    starting_time, ending_time = _times(options, "startingTime"), _times(options, "endingTime")
    for name, time in (("starting", starting_time), ("ending", ending_time)):
        if time is not None and options.text(f"{name}Offsets"):
            raise BadOption(f"options {name}Offsets and {name}Time exclude each other")
    starting = _edge(options, "startingOffsets", LATEST if streaming else EARLIEST)
    ending = _edge(options, "endingOffsets", LATEST)
    if not streaming and starting == LATEST:
        raise BadOption("option startingOffsets: a batch query cannot start at latest")
    if ending == EARLIEST:
        raise BadOption("option endingOffsets: nothing lies before earliest")
    if streaming and (options.text("endingOffsets") or ending_time is not None):
        raise BadOption("options endingOffsets and endingTime are for batch queries")
    max_messages, min_messages = options.number("maxOffsetsPerTrigger", 0), options.number("minOffsetsPerTrigger", 0)
    if max_messages and min_messages > max_messages:
        raise BadOption("option minOffsetsPerTrigger is larger than maxOffsetsPerTrigger")
    return ReadOptions(
        address=address,
        topics=topics,
        pattern=pattern,
        starting=starting,
        ending=ending,
        starting_time=starting_time,
        ending_time=ending_time,
        no_message_at_time=options.one_of("startingOffsetsByTimestampStrategy", ("latest", "error"), "latest"),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        poll_timeout_seconds=options.number("pollTimeoutMs", 120_000, least=1) / 1000,
        subscription=options.text("predefinedSubscription"),
        reader_name=options.text("pulsar.reader.subscriptionName")
        or f"{options.text('subscriptionPrefix', 'spark-pulsar')}-reader",
        max_messages=max_messages,
        max_bytes=options.number("maxBytesPerTrigger", 0),
        min_messages=min_messages,
        max_delay_seconds=options.seconds("maxTriggerDelay", "15m"),
        cores=options.number("cores", 0),
        min_partitions=options.number("minPartitions", 0),
        max_messages_per_task=options.number("maxRecordsPerPartition", 0),
        max_bytes_per_partition=options.number("maxBytesPerPartition", 128 * 1024 * 1024),
        different_schemas=options.flag("allowDifferentTopicSchemas", default=False),
        wait_for_topics=options.flag("waitingForNonExistedTopic", default=False),
        bad_values=BadValues(
            BadValueMode(options.one_of("mode", tuple(BadValueMode), BadValueMode.PERMISSIVE)),
            options.text("columnNameOfCorruptRecord"),
        ),
        permits=options.number("pulsar.reader.receiverQueueSize", 10_000, least=1),
        read_compacted=options.flag("pulsar.reader.readCompacted", default=False),
        columns=tuple(name.strip() for name in options.text("columns").split(",") if name.strip()),
        disorder_ms=round(options.seconds("maxPublishTimeDisorder", "1h") * 1000),
        raw_columns=options.flag("rawColumns", default=False),
    )


def _topics(options: Options) -> tuple[tuple[str, ...], str]:
    chosen = [name for name in ("topic", "topics", "topicsPattern") if options.text(name)]
    single = options.text("topic") or options.text("path")
    if len(chosen) > 1 or not (chosen or single):
        raise BadOption("exactly one of the options topic, topics and topicsPattern must be given")
    if pattern := options.text("topicsPattern"):
        try:
            topic_pattern(pattern)
        except (re.error, ValueError) as error:
            raise BadOption(f"option topicsPattern: '{pattern}': {error}") from error
        return (), pattern
    names = [single] if single else [name.strip() for name in options.text("topics").split(",") if name.strip()]
    return tuple(dict.fromkeys(TopicName.parse(name).full for name in names)), ""


def _json(options: Options, name: str) -> Any:
    try:
        return json.loads(options.text(name))
    except json.JSONDecodeError as error:
        raise BadOption(f"option {name}: not JSON: {error}") from error


def _edge(options: Options, name: str, default: str) -> QueryEdge:
    text = options.text(name, default)
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    ids = _json(options, name) if text.startswith("{") else None
    if not ids:
        raise BadOption(f"option {name}: '{text}': expected earliest, latest or a JSON map of partition to message id")
    try:
        return {topic.full: _place(value, topic) for topic, value in ((TopicName.parse(t), v) for t, v in ids.items())}
    except ValueError as error:
        raise BadOption(f"option {name}: {error}") from error


def _place(value: object, topic: TopicName) -> Bound:
    if isinstance(value, str) and value.lower() in NAMED_PLACES:
        return NAMED_PLACES[value.lower()]
    return bound_of_value(value, topic.partition_index)


def _times(options: Options, name: str) -> int | Mapping[str, int] | None:
    """Returns milliseconds since the epoch, as one number for all partitions or as one number for each partition.
    Returns None when the option is not given. As in the published connector, -1 means latest and -2 earliest."""
    if not options.text(name):
        return None
    times = _json(options, name)
    if type(times) is int:
        return times
    if isinstance(times, dict) and all(type(time) is int for time in times.values()):
        return {TopicName.parse(topic).full: time for topic, time in times.items()}
    raise BadOption(f"option {name}: expected milliseconds or a JSON map of partition to milliseconds")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a query that writes. When `topic` is empty, the column __topic names the topic of each row."""

    address: ServiceAddress
    topic: str
    producer_name: str
    sorted_rows: bool
    compression: int
    batch_messages: int
    send_timeout_seconds: float
    key_batches: bool
    """Whether all messages of a batch have one key, as subscriptions of the kind Key_Shared need it."""
    chunking: bool
    """Whether messages that are too large for the broker are sent in chunks."""
    messages_per_second: int
    """The limit of each task; with 0 a task writes as fast as the broker takes messages."""


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Returns the checked options of a query that writes. Raises BadOption for an option that makes no sense."""
    options = Options(given)
    topic = options.text("topic") or options.text("path")
    compression = options.one_of("pulsar.producer.compressionType", tuple(COMPRESSIONS), "none")
    batching = options.flag("pulsar.producer.batchingEnabled", default=True)
    return WriteOptions(
        address=address_of(options),
        topic=TopicName.parse(topic).full if topic else "",
        producer_name=options.text("producerName"),
        sorted_rows=options.one_of("rowOrder", ("input", "sorted"), "input") == "sorted",
        compression=COMPRESSIONS[compression.lower()],
        batch_messages=options.number("pulsar.producer.batchingMaxMessages", 1000, least=1) if batching else 1,
        send_timeout_seconds=options.number("pulsar.producer.sendTimeoutMs", 30_000, least=1) / 1000,
        key_batches=options.one_of("pulsar.producer.batcherBuilder", BATCHERS, BATCHERS[0]) == BATCHERS[1],
        chunking=options.flag("pulsar.producer.chunkingEnabled", default=False),
        messages_per_second=options.number("maxMessagesPerSecond", 0),
    )
