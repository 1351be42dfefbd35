"""The commands of transactions. Transactions are off, so each command is refused
(ServerCnx.checkTransactionEnableAndSendError)."""

from typing import TYPE_CHECKING, Any

from pulsar_proto.errors import NotAllowed

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection


def not_enabled(cnx: "Connection", command: Any) -> None:
    raise NotAllowed("Transactions are not enabled.")
