"""CONNECT, PING and PONG.

Source: ServerCnx.handleConnect; Commands.newConnectedCommand.
"""

import logging
from typing import TYPE_CHECKING

from magnetar import __version__
from pulsar_proto.commands import connected_frame, pong_frame
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from server.connection import Connection

log = logging.getLogger(__name__)

SERVER_VERSION = f"Magnetar Server{__version__}"
"""Clients only print it; they fail when it is missing. Java's broker says `Pulsar Server4.0.7`, without a space."""

_PONG = pong_frame()


def connect(cnx: "Connection", command: pb.CommandConnect) -> None:
    """Answers CONNECTED with min(our version, the client's). Without authentication any credentials are taken as
    anonymous. Only what exists is advertised: not topic watchers (4), replication dedup (6) or scalable topics (8).
    """
    cnx.session.accept(command.client_version, command.protocol_version)
    log.info("%s: connected, %s, protocol %d", cnx.remote_address, cnx.client_version, cnx.protocol_version)
    flags = pb.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
    max_size = cnx.broker.limits.max_message_size
    cnx.write(connected_frame(SERVER_VERSION, cnx.protocol_version, max_size, flags))


def ping(cnx: "Connection", command: pb.CommandPing) -> None:
    cnx.write(_PONG)


def pong(cnx: "Connection", command: pb.CommandPong) -> None:
    """Every command counts as life; that was all it had to say."""
