"""What topics are told about transactions: the settings, and which transactions are alive."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Protocol

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.transactions.batch_counters import BatchCounters
from pulsar_proto.ids import TxnId


class KnownTransactions(Protocol):
    """Knows the transactions of all coordinators of the cluster."""

    def is_live_here(self, txn_id: TxnId) -> bool:
        """Whether a coordinator that is loaded in this process has the transaction, so that `is_live` returns True."""

    @property
    def are_in_use(self) -> bool:
        """False as long as there has never been a transaction, so that no topic can have stored anything of one."""

    def is_live(self, txn_id: TxnId) -> bool | Awaitable[bool]:
        """Returns whether the transaction's coordinator has the transaction, and it has not ended everywhere: it is
        OPEN, COMMITTING or ABORTING. The answer is awaitable when the coordinator is not in this process or not loaded
        yet. The awaitable raises PulsarError when nobody can tell now.

        A transaction's end reaches all its topics and subscriptions before its coordinator forgets it, so the end of a
        transaction that is not live will never come."""


@dataclass(frozen=True, slots=True)
class TransactionSupport:
    """What a topic needs for transactions. A topic without one refuses messages and acknowledgements of
    transactions."""

    settings: TransactionSettings
    known: KnownTransactions
    pending_ack_batches: BatchCounters = field(default_factory=BatchCounters)
    """The batches of the logs of this broker's pending acknowledgements."""
