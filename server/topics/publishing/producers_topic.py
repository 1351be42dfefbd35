"""The interface of the topic that its producers use. The topic's own module may not be imported here."""

from collections.abc import Mapping
from typing import Protocol

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.storage.managed.append_queue import AddDone
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError


class ProducersTopic(Protocol):
    """The topic, as its producers see it."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_terminated(self) -> bool: ...

    @property
    def policies(self) -> EffectivePolicies: ...

    def lost_ledger(self, error: ManagedLedgerError) -> None:
        """Called when the topic cannot use its log any more, because another broker owns it or it is closed."""


class PublishLog(Protocol):
    """The log that a topic's producers append to: a managed ledger, or for a non-persistent topic an object that passes
    messages on to the consumers."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None: ...

    async def set_properties(self, updates: Mapping[str, str | None]) -> None:
        """Stores properties of the log. Raises ManagedLedgerError."""

    async def open_ledger(self) -> None:
        """Opens a ledger for new entries after a failure. Raises ManagedLedgerError."""
