"""The official client, opened with the settings of the connection, and its faults as sentences."""

import base64
import contextlib
import json
import os
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from magnetar.server.tools.connection.oauth2 import CLIENT_CREDENTIALS, OAuth2Client
from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.connection.tls_context import tls_context
from magnetar.server.tools.messages.handshake import ChallengeError, greet, reason_of
from magnetar.server.tools.messages.tool_errors import ToolError, UnreachableError
from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import TopicName

REACH_SECONDS = 5.0
"""How long the first connection to a service URL may take. The client itself would try in silence for half a minute."""
OPERATION_SECONDS = 30
INSTALL = "pip install 'magnetar[client]'"
BINARY_SCHEMES = ("pulsar://", "pulsar+ssl://")
TLS_SCHEMES = ("pulsar+ssl://", "https://")
DEFAULT_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}

SENTENCES = {
    "AuthenticationError": "the server refused the login",
    "AuthorizationError": "this login is not permitted to do it",
    "ConnectError": "the connection to {url} failed, or the server refused the login",
    "ConsumerBusy": "the subscription has a consumer already, and its type allows no further one",
    "IncompatibleSchema": "the topic's schema is not compatible with this one",
    "InvalidTopicName": "the name of the topic is not valid",
    "LookupError": "the server could not say which broker serves the topic",
    "MessageTooBig": "the message is larger than the server takes",
    "NotConnected": "the server is not reached",
    "ProducerBlockedQuotaExceededError": "the topic's backlog quota is used up",
    "ProducerBusy": "another producer of that name, or an exclusive one, is on the topic",
    "ProducerFenced": "another producer has taken the topic for itself",
    "ServiceUnitNotReady": "the topic's broker is not ready",
    "SubscriptionNotFound": "there is no such subscription",
    "Timeout": "no answer in time from {url}",
    "TopicNotFound": "there is no such topic, namespace or tenant, or topics are not made by use",
    "TopicTerminated": "the topic was terminated and takes no more messages",
}
"""What the client's exceptions mean for the person who asked. All others are told by their names."""


def import_client() -> Any:
    """Returns the module `pulsar`. Raises ToolError when it is not installed."""
    try:
        import pulsar
    except ImportError as error:
        if error.name not in ("pulsar", "_pulsar", "certifi"):
            raise ToolError(f"the client for messages cannot be loaded: {error}") from None
        raise ToolError(f"the client for messages is not installed: {INSTALL}") from None
    return pulsar


def topic_name(text: str) -> str:
    """Returns the full name of a topic. Raises ToolError for a name that no topic can have."""
    try:
        return TopicName.parse(text).full
    except InvalidTopicName as error:
        raise ToolError(f"'{text}' is no name of a topic: {error}") from None


def open_client(
    settings: ConnectionSettings, *, log_level: str = "", operation_seconds: int = OPERATION_SECONDS
) -> Any:
    """Returns a `pulsar.Client`. Raises ToolError when the client is missing, when the settings cannot be used and when
    nobody listens at the service URL. The client's log goes to stderr when a level is given, otherwise nowhere."""
    pulsar = import_client()
    reach(settings)
    levels = {"DEBUG": "Debug", "INFO": "Info", "WARNING": "Warn", "ERROR": "Error"}
    level = getattr(pulsar.LoggerLevel, levels.get(log_level, "Error"))
    credentials, tls = settings.credentials, settings.tls
    try:
        return pulsar.Client(
            settings.broker_service_url,
            authentication=_authentication(pulsar, settings),
            operation_timeout_seconds=operation_seconds,
            stats_interval_in_seconds=0,
            logger=pulsar.FileLogger(level, "/dev/stderr" if log_level else os.devnull),
            tls_trust_certs_file_path=tls.trust_certs or ssl.get_default_verify_paths().cafile,
            tls_allow_insecure_connection=tls.allow_insecure,
            tls_validate_hostname=tls.verify_hostname and not tls.allow_insecure,
            tls_private_key_file_path=credentials.client_key or None,
            tls_certificate_file_path=credentials.client_certificate or None,
        )
    except (ValueError, RuntimeError, pulsar.PulsarException) as error:
        raise ToolError(sentence(error, settings.broker_service_url)) from None


def close_quietly(closable: Any) -> None:
    """Closes a client, a consumer or a producer. The server may be away by then, which changes nothing any more: what a
    consumer has not acknowledged comes again."""
    pulsar = import_client()
    with contextlib.suppress(pulsar.PulsarException):
        closable.close()


def _authentication(pulsar: Any, settings: ConnectionSettings) -> Any:
    credentials = settings.credentials
    match credentials.method:
        case "token" if credentials.oauth2 is not None:
            return pulsar.AuthenticationOauth2(_oauth2_parameters(credentials.oauth2.client))
        case "token":
            return pulsar.AuthenticationToken(credentials.token)
        case "basic":
            return pulsar.AuthenticationBasic(credentials.user, credentials.password)
        case "tls":
            return pulsar.AuthenticationTLS(credentials.client_certificate, credentials.client_key)
    return None


def _oauth2_parameters(client: OAuth2Client) -> str:
    """Returns the parameters of the C++ client, which asks the issuer itself whenever it needs a token."""
    key_file = json.dumps({"client_id": client.client_id, "client_secret": client.client_secret}).encode()
    pairs = {
        "type": CLIENT_CREDENTIALS,
        "issuer_url": client.issuer_url,
        "private_key": f"data:application/json;base64,{base64.b64encode(key_file).decode()}",
        "audience": client.audience,
        "scope": client.scope,
        "tls_trust_certs_file_path": client.trust_certs,
    }
    return json.dumps({key: value for key, value in pairs.items() if value})


def addresses(service_url: str) -> list[tuple[str, int]]:
    """Returns the hosts and ports of a service URL, which may name several hosts. Raises ToolError."""
    scheme, divider, rest = service_url.partition("://")
    if not divider or scheme not in DEFAULT_PORTS:
        raise ToolError(f"'{service_url}' is no service URL such as pulsar://127.0.0.1:6650")
    found = []
    for place in rest.rstrip("/").split(","):
        try:
            parts = urlsplit(f"//{place.strip()}")
            if not parts.hostname:
                raise ValueError
            found.append((parts.hostname, parts.port or DEFAULT_PORTS[scheme]))
        except ValueError:
            raise ToolError(f"'{service_url}' is no service URL such as pulsar://127.0.0.1:6650") from None
    return found


def reach(settings: ConnectionSettings) -> None:
    """Returns when one of the service URL's hosts accepts a connection and the login. Raises UnreachableError when none
    does, and ToolError for settings that cannot be used."""
    url = settings.broker_service_url
    reason = ""
    context = tls_context(settings) if url.startswith(TLS_SCHEMES) else None
    for host, port in addresses(url):
        try:
            if url.startswith(BINARY_SCHEMES):
                greet(host, port, context, settings.credentials, REACH_SECONDS)
            else:
                socket.create_connection((host, port), REACH_SECONDS).close()
        except OSError as error:
            reason = reason_of(error)
        except ChallengeError:
            return
        else:
            return
    raise UnreachableError(f"cannot connect to {url}: {reason}")


def sentence(error: Exception, service_url: str = "the server") -> str:
    """Returns what went wrong, from an exception or a result of the client."""
    name = type(error).__name__
    if name not in SENTENCES:
        return f"{name}: {error}" if name != "PulsarException" else str(error)
    return f"{SENTENCES[name].format(url=service_url)} ({name})"


def result_sentence(result: Any, service_url: str) -> str:
    """Returns what went wrong, from the result that a callback was given."""
    name = str(getattr(result, "name", result))
    text = SENTENCES.get(name)
    return f"{text.format(url=service_url)} ({name})" if text else name
