"""Knows which transactions are alive in the cluster. A coordinator of this broker answers from memory; for another
coordinator, the broker that runs it is asked."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from magnetar.server.transactions.coordinators import TransactionCoordinators
from pulsar_proto.ids import TxnId

AskOwner = Callable[[TxnId], Coroutine[Any, Any, bool]]
"""Asks the broker that runs a transaction's coordinator whether the transaction is alive. Raises PulsarError when that
broker cannot tell."""


class LiveTransactions:
    """The `KnownTransactions` of a broker. Every method is called on the event loop's thread."""

    def __init__(self) -> None:
        self._coordinators: TransactionCoordinators | None = None
        self._ask_owner: AskOwner | None = None
        self._asking: dict[TxnId, asyncio.Task[bool]] = {}

    def attach(self, coordinators: TransactionCoordinators, ask_owner: AskOwner) -> None:
        """Called once, before the first client: says which coordinators this broker runs, and how the brokers of the
        others are asked."""
        self._coordinators = coordinators
        self._ask_owner = ask_owner

    def is_live_here(self, txn_id: TxnId) -> bool:
        """See `KnownTransactions.is_live_here`."""
        coordinator = None if self._coordinators is None else self._coordinators.loaded.get(txn_id.most)
        return coordinator is not None and coordinator.table.find(txn_id.least) is not None

    @property
    def are_in_use(self) -> bool:
        return self._coordinators is None or self._coordinators.are_in_use

    def is_live(self, txn_id: TxnId) -> bool | Awaitable[bool]:
        """See `KnownTransactions.is_live`. Callers that ask for one transaction at the same time share one answer."""
        coordinators = self._coordinators
        if coordinators is None or not coordinators.are_in_use:
            return False
        coordinator = coordinators.loaded.get(txn_id.most)
        if coordinator is not None:
            return coordinator.table.find(txn_id.least) is not None
        task = self._asking.get(txn_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(coordinators, txn_id))
            self._asking[txn_id] = task
            task.add_done_callback(lambda _: self._asking.pop(txn_id))
        return asyncio.shield(task)

    async def _ask(self, coordinators: TransactionCoordinators, txn_id: TxnId) -> bool:
        if txn_id.most >= await coordinators.count():
            return False
        if coordinators.runs_here(txn_id.most):
            coordinator = await coordinators.connect(txn_id.most)
            return coordinator.table.find(txn_id.least) is not None
        assert self._ask_owner is not None
        return await self._ask_owner(txn_id)
