"""Handles CONNECT while authentication is on. `command_table.commands_of` imports this module only then, so a broker
without authentication does not hold the module, and the modules that it imports, in memory.

Source: ServerCnx.handleConnect.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.protocol.handlers.connect import SERVER_VERSION, answer_connected
from magnetar.server.protocol.login import Login
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection


def connect(cnx: "Connection", command: pb.CommandConnect) -> Coroutine[Any, Any, None]:
    """Judges the client's credentials, and answers CONNECTED when the client has got its role."""
    security = cnx.broker.security
    assert security is not None, "without authentication `connect.connect` answers"
    cnx.session.begin()
    login = cnx.login = Login(cnx, security, SERVER_VERSION)
    return login.connect(command, lambda: answer_connected(cnx, command))
