"""CONNECT, AUTH_RESPONSE, PING and PONG.

Source: ServerCnx.handleConnect; Commands.newConnectedCommand.
"""

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from magnetar import __version__
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import connected_frame, error_frame, pong_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

log = logging.getLogger(__name__)

SERVER_VERSION = f"Magnetar Server{__version__}"
"""Clients only print it; they fail when it is missing. Java's broker says `Pulsar Server4.0.7`, without a space."""

_PONG = pong_frame()


def connect(cnx: "Connection", command: pb.CommandConnect) -> Coroutine[Any, Any, None] | None:
    """Where authentication is off any credentials are taken, and never looked at."""
    security = cnx.broker.security
    if security is None:
        _connected(cnx, command)
        return None
    cnx.session.begin()
    # A broker without authentication does not hold this module, and what it stands on, in memory.
    from magnetar.server.protocol.login import Login

    login = cnx.login = Login(cnx, security, SERVER_VERSION)
    return login.connect(command, lambda: _connected(cnx, command))


def refuse_connect(command: pb.CommandConnect, code: pb.ServerError.ValueType, text: str) -> bytes:
    return error_frame(NO_REQUEST_ID, code, text)


def _connected(cnx: "Connection", command: pb.CommandConnect) -> None:
    """Answers CONNECTED with min(our version, the client's). Only what exists is advertised: not replication dedup (6)
    or scalable topics (8)."""
    cnx.session.accept(command.client_version, command.protocol_version)
    log.info("%s: connected, %s, protocol %d", cnx.remote_address, cnx.client_version, cnx.protocol_version)
    flags = pb.FeatureFlags(
        supports_get_partitioned_metadata_without_auto_creation=True,
        supports_topic_watchers=cnx.traffic.limits.enable_broker_topic_list_watcher,
    )
    max_size = cnx.traffic.limits.max_message_size
    cnx.write(connected_frame(SERVER_VERSION, cnx.protocol_version, max_size, flags))


def auth_response(cnx: "Connection", command: pb.CommandAuthResponse) -> Coroutine[Any, Any, None]:
    """A credential that was asked for anew."""
    if cnx.login is None:
        raise MalformedFrame("AUTH_RESPONSE that nothing asked for")
    return cnx.login.respond(command)


def ping(cnx: "Connection", command: pb.CommandPing) -> None:
    cnx.write(_PONG)


def pong(cnx: "Connection", command: pb.CommandPong) -> None:
    """Every command counts as life; that was all it had to say."""
