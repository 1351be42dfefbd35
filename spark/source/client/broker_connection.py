"""One blocking connection to a broker, which sends and receives frames and waits for the answers to requests.

Executors and the driver's planner run in plain processes without an event loop, and read one partition at a time. For
them a blocking socket is the simplest thing that is fast. PINGs are answered whenever the owner of the connection reads
from it or calls `is_alive`. A broker closes a connection that was idle for too long; the owner notices the closed
connection and opens another one.
"""

import base64
import select
import socket
import ssl
import time
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
from magnetar.server.tools.connection.oauth2 import OAuth2Client, TokenSource
from magnetar.server.tools.connection.server_trust import trusting_context
from magnetar.spark.source.decoding.inbox import Inbox
from magnetar.spark.source.decoding.wire_scan import Buffer, Ints
from pulsar_proto.errors import AuthenticationFault, MalformedFrame, UnknownCommand, error_of_code
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, pong_frame, simple_frame
from pulsar_proto.wire.framing import FRAME_PADDING, Frame, FrameReader

PROTOCOL_VERSION = 21
CLIENT_VERSION = "Magnetar-Spark"
READ_BYTES = 1 << 16
"""The size of the buffer that answers are read into."""
GATHER_SECONDS = 0.004
"""A pause of this length ends a block of messages that is not full yet."""
PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}

MESSAGE = pb.BaseCommand.MESSAGE
CLOSED_BY_BROKER = (pb.BaseCommand.CLOSE_CONSUMER, pb.BaseCommand.CLOSE_PRODUCER)


class Disconnected(ConnectionError):
    """The broker closed the connection, or the connection broke. It is unknown whether the broker has carried out the
    requests under way."""


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """The credentials and the timeout of connections. The object is never printed, because it may hold a token."""

    token: str | None = None
    token_file: str | None = None
    basic: str | None = None
    """A user's name and password, `user:password`."""
    oauth2: OAuth2Client | None = None
    """The client for whom an issuer of OAuth 2.0 gives the tokens."""
    by_certificate: bool = False
    """Whether the client's certificate says who the client is."""
    trust_certs_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify_hostname: bool = True
    allow_insecure: bool = False
    timeout_seconds: float = 30.0

    def __repr__(self) -> str:
        return "ClientLogin(…)"

    def token_text(self) -> str | None:
        """Returns the token. A token in a file is read again for every connection, because such tokens are rotated.
        Raises AuthenticationFault when the issuer of OAuth 2.0 gives no token."""
        if self.oauth2 is not None:
            try:
                return _issued_tokens(self.oauth2).token()
            except ConnectionSettingsError as error:
                raise AuthenticationFault(f"no token: {error}") from None
        if self.token_file is not None:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        return self.token

    def credentials(self) -> tuple[str, bytes] | None:
        """Returns the name of the authentication method and what CONNECT has to say for it. None means that the client
        does not say who it is."""
        if self.basic is not None:
            return "basic", self.basic.encode()
        token = self.token_text()
        if token is not None:
            return "token", token.encode()
        return ("tls", b"") if self.by_certificate else None

    def http_authorization(self) -> str | None:
        """Returns the header Authorization of HTTP requests, None when there is none."""
        if self.basic is not None:
            return f"Basic {base64.b64encode(self.basic.encode()).decode()}"
        token = self.token_text()
        return None if token is None else f"Bearer {token}"

    def tls_context(self) -> ssl.SSLContext:
        context = trusting_context(self.trust_certs_file)
        context.check_hostname = self.verify_hostname and not self.allow_insecure
        if self.allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context


@lru_cache(maxsize=16)
def _issued_tokens(client: OAuth2Client) -> TokenSource:
    """Returns the source of a client's tokens. All connections of this process have the same one, so that the issuer is
    not asked for a token for each of them."""
    return TokenSource(client)


class BrokerConnection:
    """One blocking connection to a broker. The constructor connects and logs in. Only one thread may use a
    connection."""

    def __init__(self, url: str, login: ClientLogin, proxy_to: str | None = None) -> None:
        """Connects to `url`, pulsar://host:port or pulsar+ssl://…; `proxy_to` is the address of the broker when `url`
        is the address of a proxy. Raises Disconnected, and PulsarError for a refused login."""
        self.url = url
        self._timeout = login.timeout_seconds
        self._frames: deque[Frame] = deque()
        self._inbox: Inbox | None = None
        self._request_id = 0
        self.max_message_size = 0
        self._socket = _dial(url, login)
        self._reader = FrameReader(scratch=bytearray(READ_BYTES))
        try:
            self._login(login, proxy_to)
        except BaseException:
            self.close()
            raise

    def _login(self, login: ClientLogin, proxy_to: str | None) -> None:
        credentials = login.credentials()
        flags = pb.FeatureFlags(supports_auth_refresh=True, supports_broker_entry_metadata=False)
        connect = pb.CommandConnect(
            client_version=CLIENT_VERSION, protocol_version=PROTOCOL_VERSION, feature_flags=flags
        )
        if credentials is not None:
            connect.auth_method_name, connect.auth_data = credentials
        if proxy_to is not None:
            connect.proxy_to_broker_url = proxy_to
        self._credentials = login
        self.send(simple_frame(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=connect)))
        command = self.command(time.monotonic() + self._timeout)
        if command.type == pb.BaseCommand.ERROR:
            raise error_of_code(command.error.error, command.error.message)
        if command.type != pb.BaseCommand.CONNECTED:
            raise Disconnected(f"{self.url} answered CONNECT with a command of type {command.type}")
        size = command.connected.max_message_size or 5 * 1024 * 1024
        self.max_message_size = size
        self._reader = FrameReader(size + FRAME_PADDING, bytearray(READ_BYTES))

    @property
    def reads_blocks(self) -> bool:
        """Returns whether `block` was called. After that call no other method may wait for an answer."""
        return self._inbox is not None

    def block(self, deadline: float) -> tuple[Buffer, Ints] | None:
        """Returns many frames at once: a buffer, and the places in it at which frames begin. Returns None when
        `deadline` (monotonic seconds) passes before a frame comes. From the first call of `block` on, the connection is
        for messages only: no other method may wait for an answer. Raises Disconnected."""
        if self._inbox is None:
            self._inbox = Inbox(self.max_message_size + FRAME_PADDING, self._reader.take_rest())
        inbox = self._inbox
        while self._frames:
            command = self.housekeeping(self._frames.popleft()[0])
            if command is not None and command.type in CLOSED_BY_BROKER:
                raise Disconnected(f"{self.url} closed the consumer")
        try:
            while not inbox.has_frame():
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._fill(inbox, left)
            while not inbox.is_full and self._fill(inbox, GATHER_SECONDS):
                continue
        except MalformedFrame as error:
            raise Disconnected(f"{self.url}: {error}") from error
        return inbox.take()

    def _fill(self, inbox: Inbox, seconds: float) -> bool:
        count = self._read_into(inbox.room(), seconds)
        inbox.received(count)
        return count > 0

    def send(self, data: bytes) -> None:
        """Sends bytes to the broker. Raises Disconnected."""
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(data)
        except OSError as error:
            raise Disconnected(f"{self.url}: {error}") from error

    def next_request_id(self) -> int:
        self._request_id += 1
        return self._request_id

    def frames(self, deadline: float) -> deque[Frame]:
        """Returns the frames that have come, and waits for the first one. The caller removes the frames that it uses
        from the queue. The queue is empty when `deadline` (monotonic seconds) passes before anything comes. Raises
        Disconnected."""
        while not self._frames:
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                break
        return self._frames

    def _receive(self, seconds: float) -> bool:
        """Reads once; returns False when nothing came in time."""
        count = self._read_into(self._reader.get_buffer(), seconds)
        if not count:
            return False
        try:
            self._frames.extend(self._reader.received(count))
        except MalformedFrame as error:
            raise Disconnected(f"{self.url}: {error}") from error
        return True

    def _read_into(self, room: memoryview, seconds: float) -> int:
        """Reads once and returns the number of bytes, 0 when nothing came in time."""
        self._socket.settimeout(max(seconds, 0.001))
        try:
            count = self._socket.recv_into(room)
        except (TimeoutError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise Disconnected(f"{self.url}: {error}") from error
        if count == 0:
            raise Disconnected(f"{self.url} closed the connection")
        return count

    def command(self, deadline: float) -> pb.BaseCommand:
        """Returns the next command that is not PING, PONG, AUTH_CHALLENGE or a message. Raises Disconnected when no
        such command came by the deadline."""
        while True:
            frames = self.frames(deadline)
            if not frames:
                raise Disconnected(f"{self.url} did not answer within {self._timeout:g} s")
            parsed = self.housekeeping(frames.popleft()[0])
            if parsed is not None and parsed.type != MESSAGE:
                return parsed

    def housekeeping(self, data: bytes) -> pb.BaseCommand | None:
        """Parses one command. Returns None for commands that the connection handles itself (PING, PONG and
        AUTH_CHALLENGE) and for unknown commands. Raises Disconnected for bytes that do not decode."""
        try:
            parsed = parse_command(data)
        except UnknownCommand:
            return None
        except MalformedFrame as error:
            raise Disconnected(f"{self.url}: {error}") from error
        if parsed.type == pb.BaseCommand.PING:
            self.send(pong_frame())
            return None
        if parsed.type == pb.BaseCommand.AUTH_CHALLENGE:
            self._answer_challenge(parsed.authChallenge)
            return None
        return None if parsed.type == pb.BaseCommand.PONG else parsed

    def _answer_challenge(self, challenge: pb.CommandAuthChallenge) -> None:
        method, content = self._credentials.credentials() or ("none", b"")
        data = pb.AuthData(auth_method_name=method, auth_data=content)
        answer = pb.CommandAuthResponse(client_version=CLIENT_VERSION, response=data, protocol_version=PROTOCOL_VERSION)
        self.send(simple_frame(pb.BaseCommand(type=pb.BaseCommand.AUTH_RESPONSE, authResponse=answer)))

    def request(self, command: pb.BaseCommand, field: str) -> pb.BaseCommand:
        """Sends a command whose body `field` has a request id, and returns its answer. Raises PulsarError when the
        answer is ERROR, and Disconnected when no answer comes in time."""
        body = getattr(command, field)
        request_id = body.request_id = self.next_request_id()
        self.send(simple_frame(command))
        return self.answer(request_id)

    def answer(self, request_id: int) -> pb.BaseCommand:
        """Waits for the answer to a request, passing over commands that answer nothing, such as CLOSE_CONSUMER."""
        deadline = time.monotonic() + self._timeout
        while True:
            command = self.command(deadline)
            fields = command.ListFields()
            body = fields[-1][1] if len(fields) > 1 else None
            if getattr(body, "request_id", None) != request_id:
                continue
            if command.type == pb.BaseCommand.ERROR:
                raise error_of_code(command.error.error, command.error.message)
            return command

    def is_alive(self) -> bool:
        """Reads the frames that came meanwhile, and answers PINGs. Returns False when the broker closed the connection
        or the consumer or producer on it."""
        try:
            while select.select([self._socket], [], [], 0)[0]:
                self._receive(0.001)
            kept: deque[Frame] = deque()
            for frame in self._frames:
                command = self.housekeeping(frame[0])
                if command is not None and command.type in CLOSED_BY_BROKER:
                    return False
                if command is not None:
                    kept.append(frame)
        except (ConnectionError, ValueError):
            return False
        self._frames = kept
        return True

    def close(self) -> None:
        self._socket.close()


def _dial(url: str, login: ClientLogin) -> socket.socket:
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"'{url}' is no service URL: expected pulsar://host:port or pulsar+ssl://host:port")
    address = (parts.hostname, parts.port or PORTS[parts.scheme])
    try:
        sock = socket.create_connection(address, login.timeout_seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "pulsar+ssl":
            return login.tls_context().wrap_socket(sock, server_hostname=parts.hostname)
    except OSError as error:
        raise Disconnected(f"cannot connect to {url}: {error}") from error
    return sock
