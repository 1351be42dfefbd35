"""`check connection`: whether a client could work with each address of the service URL. It needs no client library: it
connects, makes TLS, and logs in by CONNECT as a client does."""

import socket
import ssl
import time
from datetime import UTC, datetime
from struct import Struct

from magnetar.server.tools.connection.credentials import Credentials
from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.connection.tls_context import tls_context
from magnetar.server.tools.messages.check_measures import CERTIFICATE, CONNECT
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds
from magnetar.server.tools.messages.message_client import addresses
from magnetar.server.tools.messages.tool_errors import UsageError
from pulsar_proto.errors import MalformedFrame, UnknownCommand
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, simple_frame

FRAME_BYTES_MAX = 5 << 20
PROTOCOL_VERSION = 19
_SIZES = Struct(">II")


def check_connection(outcome: Outcome, settings: ConnectionSettings, thresholds: Thresholds, timeout_s: float) -> None:
    """Adds to the outcome what was found at every address: each of them has to work."""
    url = settings.broker_service_url
    if not url.startswith(("pulsar://", "pulsar+ssl://")):
        raise UsageError(f"--service-url: '{url}' is no address of the client protocol such as pulsar://127.0.0.1:6650")
    context = tls_context(settings) if url.startswith("pulsar+ssl://") else None
    longest_s = 0.0
    expiry: datetime | None = None
    versions: set[str] = set()
    for host, port in addresses(url):
        try:
            found = _connect(host, port, context, settings.credentials, timeout_s)
        except (OSError, MalformedFrame, UnknownCommand) as error:
            outcome.fail(State.CRITICAL, f"{host}:{port}: {_reason(error)}")
            continue
        seconds, version, certificate = found
        longest_s = max(longest_s, seconds)
        versions.add(version)
        if certificate is not None:
            expires = _expiry(certificate)
            expiry = expires if expiry is None else min(expiry, expires)
    if versions:
        outcome.text = "; ".join(filter(None, (outcome.text, ", ".join(sorted(versions)))))
        outcome.add(CONNECT, longest_s, thresholds)
    if expiry is not None:
        left_s = (expiry - datetime.now(UTC)).total_seconds()
        outcome.add(CERTIFICATE, left_s, thresholds)


def _connect(
    host: str, port: int, context: ssl.SSLContext | None, credentials: Credentials, timeout_s: float
) -> tuple[float, str, bytes | None]:
    """Returns the seconds until CONNECTED, the server's version, and its certificate (DER). Raises OSError, also when
    the server refuses the login."""
    began_s = time.monotonic()
    certificate = None
    with socket.create_connection((host, port), timeout_s) as plain:
        plain.settimeout(max(0.1, timeout_s - (time.monotonic() - began_s)))
        connection: socket.socket = plain
        if context is not None:
            secured = context.wrap_socket(plain, server_hostname=host)
            certificate = secured.getpeercert(binary_form=True)
            connection = secured
        with connection:
            connection.sendall(_connect_frame(credentials))
            answer = _read_command(connection, began_s + timeout_s)
    if answer.type == pb.BaseCommand.ERROR:
        raise ConnectionError(f"the server refused CONNECT: {answer.error.message}")
    if answer.type == pb.BaseCommand.AUTH_CHALLENGE:
        raise ConnectionError("the server asks for an authentication in several steps, which this check cannot do")
    if answer.type != pb.BaseCommand.CONNECTED:
        raise ConnectionError(f"the server answered {pb.BaseCommand.Type.Name(answer.type)} to CONNECT")
    return time.monotonic() - began_s, answer.connected.server_version, certificate


def _connect_frame(credentials: Credentials) -> bytes:
    command = pb.BaseCommand(type=pb.BaseCommand.CONNECT)
    command.connect.client_version = "magnetar-check"
    command.connect.protocol_version = PROTOCOL_VERSION
    if credentials.method:
        command.connect.auth_method_name = credentials.method
        data = {"token": credentials.token, "basic": f"{credentials.user}:{credentials.password}"}
        command.connect.auth_data = data.get(credentials.method, "").encode()
    return simple_frame(command)


def _read_command(connection: socket.socket, deadline_s: float) -> pb.BaseCommand:
    total, size = _SIZES.unpack(_read(connection, _SIZES.size, deadline_s))
    if total > FRAME_BYTES_MAX or size > total - 4:
        raise ConnectionError("the server does not speak Pulsar's protocol")
    return parse_command(_read(connection, total - 4, deadline_s)[:size])


def _read(connection: socket.socket, count: int, deadline_s: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(max(0.01, deadline_s - time.monotonic()))
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data


def _expiry(certificate: bytes) -> datetime:
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(certificate).not_valid_after_utc


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error)
