"""The questions that driver and executors ask brokers: partitions, owners, schemas, the topics of a namespace.

Each question is a command of the binary protocol (PulsarApi.proto): PARTITIONED_METADATA, LOOKUP, GET_SCHEMA,
GET_TOPICS_OF_NAMESPACE.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import urlsplit

from magnetar.spark.source.client.broker_connection import BrokerConnection, ClientLogin, Disconnected
from magnetar.spark.source.client.http_lookup import HttpLookup
from pulsar_proto.backoff import backoff
from pulsar_proto.errors import (
    ConsumerBusy,
    ProducerBusy,
    PulsarError,
    ServiceNotReady,
    TooManyRequests,
    TopicNotFound,
    error_of_code,
)
from pulsar_proto.names import NamespaceName, TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

T = TypeVar("T")

REDIRECTS_MAX = 20
RETRY_FIRST_SECONDS = 0.1
RETRY_LONGEST_SECONDS = 2.0
BUSY_PAUSE_SECONDS = 0.2
PASSING_ERRORS = (Disconnected, ServiceNotReady, TooManyRequests)
NO_NAMESPACE = re.compile("namespace (not found|does not exist)", re.IGNORECASE)
"""Matches what brokers say about a topic whose namespace is not there."""
BUSY_ERRORS = (ConsumerBusy, ProducerBusy)


def topic_pattern(pattern: str) -> Callable[[TopicName], bool]:
    """Returns a function that tells whether a topic's name matches a pattern; `PulsarClient.topics_matching` uses the
    function."""
    expression, namespace = re.compile(pattern), namespace_of_pattern(pattern)

    def matches(name: TopicName) -> bool:
        texts = [name.full, name.full.partition("://")[2], *([] if "/" in pattern else [name.local_name])]
        return name.namespace == namespace and any(expression.fullmatch(text) for text in texts)

    return matches


class PulsarClient:
    """A client of Pulsar's brokers, which keeps one connection to the service URL and one to each broker that owns a
    topic. `persist` repeats failing calls for a while, so that the restart of a broker is not an error at once."""

    def __init__(self, service_url: str, login: ClientLogin) -> None:
        self._urls = service_urls(service_url)
        self._http = HttpLookup(self._urls, login) if self._urls[0].startswith(("http://", "https://")) else None
        self.login = login
        self._connections: dict[tuple[str, str | None], BrokerConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def persist(self, attempt: Callable[[], T], seconds: float | None = None) -> T:
        """Returns what `attempt` returns. After an error of PASSING_ERRORS, calls `attempt` again, with growing pauses,
        for `seconds` or for the login's timeout, and then raises the last error."""
        deadline = time.monotonic() + (self.login.timeout_seconds if seconds is None else seconds)
        failures = 0
        while True:
            try:
                return attempt()
            except PASSING_ERRORS as error:
                failures += 1
                pause = backoff(failures, RETRY_FIRST_SECONDS, RETRY_LONGEST_SECONDS)
                if time.monotonic() + pause > deadline:
                    raise
                if isinstance(error, Disconnected):
                    self.close()
                time.sleep(pause)

    def check(self) -> None:
        """Raises Disconnected when the service does not answer, and PulsarError when it refuses the login."""
        if self._http is None:
            self._service("")
        else:
            self._http.check()

    def _service(self, topic: str) -> BrokerConnection:
        """Returns a connection to the first of the service URL's hosts that answers, or, when the service URL is a web
        service's, to the broker that the web service names for the topic. Raises Disconnected, and for a web service
        also the errors of `HttpLookup.broker_of`."""
        if self._http is not None:
            return self._connection(self._http.broker_of(topic), None)
        error: Disconnected | None = None
        for url in self._urls:
            try:
                return self._connection(url, None)
            except Disconnected as failed:
                error = failed
        assert error is not None
        raise error

    def _connection(self, url: str, proxy_to: str | None) -> BrokerConnection:
        key = (url, proxy_to)
        known = self._connections.get(key)
        if known is not None and known.is_alive():
            return known
        if known is not None:
            known.close()
        made = self._connections[key] = BrokerConnection(url, self.login, proxy_to)
        return made

    def owner(self, topic: str) -> BrokerConnection:
        """Returns the client's own connection to the broker that owns the topic."""
        return self._connection(*self._owner_url(topic))

    def own_connection(self, topic: str) -> BrokerConnection:
        """Returns a new connection to the broker that owns the topic; the caller closes it."""
        url, proxy_to = self._owner_url(topic)
        return BrokerConnection(url, self.login, proxy_to)

    def _owner_url(self, topic: str) -> tuple[str, str | None]:
        connection = self._service(topic)
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            lookup = pb.CommandLookupTopic(topic=topic, authoritative=authoritative)
            answer = connection.request(_command("LOOKUP", lookupTopic=lookup), "lookupTopic").lookupTopicResponse
            if answer.response == pb.CommandLookupTopicResponse.Failed:
                raise error_of_code(answer.error, answer.message or f"lookup of {topic} failed")
            tls = connection.url.startswith("pulsar+ssl")
            owner = answer.brokerServiceUrlTls if tls else answer.brokerServiceUrl
            if not owner:
                raise Disconnected(f"the owner of {topic} offers no {'TLS' if tls else 'plain'} address")
            if answer.response == pb.CommandLookupTopicResponse.Connect:
                return (connection.url, _host(owner)) if answer.proxy_through_service_url else (owner, None)
            authoritative = answer.authoritative
            connection = self._connection(owner, None)
        raise Disconnected(f"lookup of {topic} was redirected {REDIRECTS_MAX} times")

    def partition_count(self, topic: str, *, create: bool = False) -> int:
        """Returns the number of partitions, which is 0 for a topic that is not partitioned. Raises TopicNotFound when
        the topic does not exist, unless `create` lets the broker create it."""
        request = pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=create)
        answer = self._service(topic).request(
            _command("PARTITIONED_METADATA", partitionMetadata=request), "partitionMetadata"
        )
        found = answer.partitionMetadataResponse
        if found.response == pb.CommandPartitionedTopicMetadataResponse.Failed:
            raise error_of_code(found.error, found.message or f"Topic {topic} not found")
        return found.partitions

    def partitions(self, topic: str, *, create: bool = False) -> list[str]:
        """Returns the full names to read from or write to: the names of the partitions, or the topic's own name when it
        has none."""
        name = TopicName.parse(topic)
        count = self.partition_count(name.full, create=create)
        return [name.partition(index).full for index in range(count)] if count else [name.full]

    def check_namespace(self, namespace: str) -> None:
        """Raises TopicNotFound when the namespace does not exist. The binary protocol has no command for that, so the
        client asks for a topic that nobody has, and looks at why the broker does not find it."""
        try:
            self.partition_count(f"persistent://{namespace}/{uuid.uuid4().hex}")
        except TopicNotFound as error:
            if NO_NAMESPACE.search(str(error)):
                raise TopicNotFound(f"namespace {namespace} does not exist") from None
        except PulsarError:
            return  # this login may know no more than some topics of the namespace

    def topics_matching(self, pattern: str) -> list[str]:
        """Returns the topics whose full name, or name without the domain, matches `pattern` as a whole, partitioned
        topics as one. System topics never match. A pattern without "/" is applied to the topics of public/default, and
        may also match a topic's local name."""
        matches = topic_pattern(pattern)
        namespace = namespace_of_pattern(pattern)
        names = {TopicName.parse(topic).base for topic in self._topics_of(namespace)}
        return sorted(name.full for name in names if not name.local_name.startswith("__") and matches(name))

    def _topics_of(self, namespace: str) -> Iterable[str]:
        if self._http is not None:
            return self._http.topics_of(namespace)
        request = pb.CommandGetTopicsOfNamespace(namespace=namespace, mode=pb.CommandGetTopicsOfNamespace.PERSISTENT)
        command = _command("GET_TOPICS_OF_NAMESPACE", getTopicsOfNamespace=request)
        return self._service("").request(command, "getTopicsOfNamespace").getTopicsOfNamespaceResponse.topics

    def schema(self, topic: str, version: bytes | None = None) -> pb.Schema | None:
        """Returns the topic's newest schema, or the given version of the schema. Returns None when there is no such
        schema."""
        request = pb.CommandGetSchema(topic=TopicName.parse(topic).base.full)
        if version is not None:
            request.schema_version = version
        service = self._service(request.topic)
        answer = service.request(_command("GET_SCHEMA", getSchema=request), "getSchema").getSchemaResponse
        if answer.HasField("error_code"):
            error = error_of_code(answer.error_code, answer.error_message)
            if isinstance(error, TopicNotFound):
                return None
            raise error
        return answer.schema


def while_busy(attempt: Callable[[], T], seconds: float) -> T:
    """Returns what `attempt` returns. After an error of BUSY_ERRORS, calls `attempt` again for `seconds`, because a
    broker may take a while to notice that the previous consumer or producer was killed, and then raises the last
    error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except BUSY_ERRORS:
            if time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE_SECONDS)


def _command(kind: str, **body: object) -> pb.BaseCommand:
    return pb.BaseCommand(type=pb.BaseCommand.Type.Value(kind), **body)  # type: ignore[arg-type]


def service_urls(service_url: str) -> list[str]:
    """Returns a URL for each host: `pulsar://a:6650,b:6650` names two hosts. Raises ValueError for a malformed URL."""
    scheme, separator, hosts = service_url.partition("://")
    if not separator or not hosts:
        raise ValueError(f"service.url '{service_url}': expected pulsar://host:port, pulsar+ssl://… or http(s)://…")
    return [f"{scheme}://{host.strip().rstrip('/')}" for host in hosts.split(",")]


def _host(url: str) -> str:
    return urlsplit(url).netloc


def namespace_of_pattern(pattern: str) -> str:
    """Returns `tenant/namespace` of the pattern `persistent://tenant/namespace/…`, and public/default for a pattern of
    local names."""
    rest = pattern.partition("://")[2] or pattern
    parts = rest.split("/", 2)
    if len(parts) < 3:
        return "public/default"
    return str(NamespaceName.parse(f"{parts[0]}/{parts[1]}"))
