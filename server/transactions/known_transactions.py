"""What topics are told about transactions: the settings, and which ids the coordinators have given out."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from magnetar.server.config.transaction_settings import TransactionSettings
from pulsar_proto.ids import TxnId


class KnownTransactions(Protocol):
    """Knows the ids that the coordinators of the cluster have given out."""

    def is_given_out(self, txn_id: TxnId) -> bool | Awaitable[bool]:
        """Returns whether a coordinator has given the id out; the transaction may have ended since. The answer is
        awaitable when a coordinator has to be asked first. The awaitable raises PulsarError when the coordinator
        cannot be asked; clients try again later."""


@dataclass(frozen=True, slots=True)
class TransactionSupport:
    """What a topic needs for transactions. A topic without one refuses messages and acknowledgements of
    transactions."""

    settings: TransactionSettings
    known: KnownTransactions
