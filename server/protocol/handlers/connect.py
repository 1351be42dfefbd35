"""Handles CONNECT, AUTH_RESPONSE, PING and PONG.

Source: ServerCnx.handleConnect; Commands.newConnectedCommand."""

import logging
from collections.abc import Coroutine
from functools import lru_cache
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
"""The broker's version in CONNECTED. Clients only print this text, but fail when it is missing. Java's broker says
`Pulsar Server4.0.7`, without a space."""

ANSWERS_KEPT = 64
"""How many different answers to CONNECT are kept. They differ by the client's protocol version."""

_PONG = pong_frame()


def connect(cnx: "Connection", command: pb.CommandConnect) -> None:
    """Answers CONNECTED to every client, because authentication is off and credentials are not looked at.
    `authenticated_connect` has the handler for when authentication is on."""
    assert cnx.broker.security is None, "with authentication on, `commands_of` puts another handler here"
    answer_connected(cnx, command)


def refuse_connect(command: pb.CommandConnect, code: pb.ServerError.ValueType, text: str) -> bytes:
    return error_frame(NO_REQUEST_ID, code, text)


def answer_connected(cnx: "Connection", command: pb.CommandConnect) -> None:
    """Answers CONNECTED with the smaller of our protocol version and the client's. Of the FeatureFlags, only those of
    features that exist here are set, so that clients use no other feature. For example,
    `supports_repl_dedup_by_lid_and_eid` and `supports_scalable_topics` are not set."""
    cnx.session.accept(command.client_version, command.protocol_version)
    log.info("%s: connected, %s, protocol %d", cnx.remote_address, cnx.client_version, cnx.protocol_version)
    limits = cnx.traffic.limits
    cnx.write(_connected(cnx.protocol_version, limits.max_message_size, limits.enable_broker_topic_list_watcher))


@lru_cache(maxsize=ANSWERS_KEPT)
def _connected(protocol_version: int, max_message_size: int, has_topic_watchers: bool) -> bytes:
    flags = pb.FeatureFlags(
        supports_get_partitioned_metadata_without_auto_creation=True, supports_topic_watchers=has_topic_watchers
    )
    return connected_frame(SERVER_VERSION, protocol_version, max_message_size, flags)


def auth_response(cnx: "Connection", command: pb.CommandAuthResponse) -> Coroutine[Any, Any, None]:
    """Judges the renewed credential for which an AUTH_CHALLENGE has asked. Raises MalformedFrame when no AUTH_CHALLENGE
    was sent."""
    if cnx.login is None:
        raise MalformedFrame("AUTH_RESPONSE that nothing asked for")
    return cnx.login.respond(command)


def ping(cnx: "Connection", command: pb.CommandPing) -> None:
    cnx.write(_PONG)


def pong(cnx: "Connection", command: pb.CommandPong) -> None:
    """Does nothing, because the connection counts every command as a sign of life, and PONG has no other meaning."""
