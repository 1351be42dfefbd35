"""The interface through which producers use their topic. Producers cannot import the module of topics, because that
module imports producers."""

from collections.abc import Mapping
from typing import Protocol

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from magnetar.storage.managed.append_queue import AddDone
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError


class ProducersTopic(Protocol):
    """The producers of a topic use the topic through this interface."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_terminated(self) -> bool: ...

    @property
    def policies(self) -> EffectivePolicies: ...

    def begin_transactions(self) -> TransactionBuffer | None:
        """Returns the topic's transactions, also if there was none yet, or None for a topic that takes none: while they
        are switched off, for system topics and non-persistent topics."""

    def lost_ledger(self, error: ManagedLedgerError) -> None:
        """Called when the topic cannot use its log any more, because another broker owns the log or the log is closed.
        The topic then closes itself."""


class PublishLog(Protocol):
    """The log that a topic's producers append to: a managed ledger, or the stand-in `NoLog` of a non-persistent
    topic."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def metadata_is_away(self) -> bool:
        """Whether the metadata store cannot be reached now. Without the store no ledger can be made or changed."""

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None: ...

    async def set_properties(self, updates: Mapping[str, str | None]) -> None:
        """Stores properties of the log; a value of None removes the property. Raises ManagedLedgerError when storing
        fails."""

    async def open_ledger(self) -> None:
        """Opens a ledger for new entries after a failure. Raises ManagedLedgerError when no ledger can be opened."""
