"""CONNECT, as a client sends it: whether a broker takes this login, told at once and in the broker's own words. The
official client would try again in silence for half a minute."""

import socket
import ssl
import time
from struct import Struct
from typing import NamedTuple

from magnetar.server.tools.connection.credentials import Credentials
from pulsar_proto.errors import MalformedFrame, UnknownCommand
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, simple_frame

FRAME_BYTES_MAX = 5 << 20
PROTOCOL_VERSION = 19
_SIZES = Struct(">II")


class Greeting(NamedTuple):
    """What a broker answered. `certificate` is its own, in DER; None without TLS."""

    seconds: float
    server_version: str
    certificate: bytes | None


class ChallengeError(Exception):
    """The broker asks for an authentication in several steps, which only the official client can do."""


def greet(host: str, port: int, context: ssl.SSLContext | None, credentials: Credentials, timeout_s: float) -> Greeting:
    """Connects, logs in and closes the connection again. Raises OSError, also when the broker refuses the login,
    ChallengeError, and ConnectionSettingsError when there is nothing to log in with."""
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
            try:
                answer = _read_command(connection, began_s + timeout_s)
            except (MalformedFrame, UnknownCommand):
                raise ConnectionError("the server does not speak Pulsar's protocol") from None
    if answer.type == pb.BaseCommand.ERROR:
        raise ConnectionError(f"the server refused the login: {answer.error.message}")
    if answer.type == pb.BaseCommand.AUTH_CHALLENGE:
        raise ChallengeError("the server asks for an authentication in several steps")
    if answer.type != pb.BaseCommand.CONNECTED:
        raise ConnectionError(f"the server answered {pb.BaseCommand.Type.Name(answer.type)} to CONNECT")
    return Greeting(time.monotonic() - began_s, answer.connected.server_version, certificate)


def _connect_frame(credentials: Credentials) -> bytes:
    command = pb.BaseCommand(type=pb.BaseCommand.CONNECT)
    command.connect.client_version = "magnetar-check"
    command.connect.protocol_version = PROTOCOL_VERSION
    if credentials.method:
        command.connect.auth_method_name = credentials.method
        if credentials.method == "token":
            command.connect.auth_data = credentials.current_token().encode()
        elif credentials.method == "basic":
            command.connect.auth_data = f"{credentials.user}:{credentials.password}".encode()
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


def reason_of(error: Exception) -> str:
    """Returns what went wrong at connecting, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error)
