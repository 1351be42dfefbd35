"""Tells the topics and subscriptions of a transaction that it has ended, a bounded number of them at the same time.
Failures are told in the log here; the caller tries again.

Source: TransactionBufferHandlerImpl.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.transactions.unreached import Unreached
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import TxnId
from pulsar_proto.latency_summary import LatencySummary

CALLS_AT_ONCE_MIN = 100
"""The least number of calls at the same time, whatever the configuration says (TransactionBufferHandlerImpl)."""


class Participants(Protocol):
    """Reaches the topics and subscriptions of all brokers. Each call may be repeated, and raises any exception when it
    has failed or its outcome is unknown. A topic or subscription that does not exist is no failure.

    The calls `end_on_loaded_…` return a future of the end when that is simple, which costs no task; the future is not
    to be cancelled. Otherwise they return None and do nothing."""

    def end_on_loaded_partition(
        self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> "asyncio.Future[None] | None": ...

    def end_on_loaded_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> "asyncio.Future[None] | None": ...

    async def end_on_partition(self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int) -> None: ...

    async def end_on_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> None: ...


class EndCalls:
    """The calls of all coordinators of this broker. Every method is called on the event loop's thread."""

    def __init__(self, participants: Participants, settings: TransactionSettings) -> None:
        self._participants = participants
        self._seconds = settings.transaction_buffer_client_operation_timeout_in_mills / 1000
        self._permits = asyncio.Semaphore(
            max(settings.transaction_buffer_client_max_concurrent_requests, CALLS_AT_ONCE_MIN)
        )
        self._unreached = Unreached()
        self.pending = 0
        """How many calls are under way or wait for their turn."""
        self.failed = {True: 0, False: 0}
        """How many calls have failed, by whether they were to commit."""
        self.latencies = {True: LatencySummary(), False: LatencySummary()}
        """How long the other calls took, by the same."""

    def on_partition(self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int) -> Awaitable[None]:
        """Ends the transaction on a topic. Returns a future when that is simple, otherwise a coroutine. Raises what the
        participant raises, and the coroutine ServiceNotReady after transactionBufferClientOperationTimeoutInMills."""
        ending = self._participants.end_on_loaded_partition(topic, txn_id, commit, low_watermark)
        if ending is not None:
            return self._watched(ending, topic, txn_id, commit)
        return self._call(
            topic,
            txn_id,
            commit,
            lambda: self._participants.end_on_partition(topic, txn_id, commit, low_watermark),
        )

    def on_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> Awaitable[None]:
        """Ends the transaction on a subscription. Returns and raises as `on_partition` does."""
        ending = self._participants.end_on_loaded_subscription(topic, subscription, txn_id, commit, low_watermark)
        if ending is not None:
            return self._watched(ending, f"{topic} / {subscription}", txn_id, commit)
        return self._call(
            f"{topic} / {subscription}",
            txn_id,
            commit,
            lambda: self._participants.end_on_subscription(topic, subscription, txn_id, commit, low_watermark),
        )

    def _watched(
        self, ending: "asyncio.Future[None]", where: str, txn_id: TxnId, commit: bool
    ) -> "asyncio.Future[None]":
        """Counts an ending, and returns it."""
        self.pending += 1
        ending.add_done_callback(partial(self._ended, where, txn_id, commit, time.monotonic()))
        return ending

    def _ended(self, where: str, txn_id: TxnId, commit: bool, began_s: float, ending: "asyncio.Future[None]") -> None:
        self.pending -= 1
        error = asyncio.CancelledError() if ending.cancelled() else ending.exception()
        if error is None:
            self.latencies[commit].add(time.monotonic() - began_s)
        elif isinstance(error, Exception):
            self.failed[commit] += 1
            self._unreached.failed(where, txn_id, error)

    def close(self) -> None:
        """Called when no call is made any more."""
        self._unreached.close()

    async def _call(self, where: str, txn_id: TxnId, commit: bool, call: Callable[[], Awaitable[None]]) -> None:
        self.pending += 1
        try:
            async with self._permits:
                began_s = time.monotonic()
                async with asyncio.timeout(self._seconds):
                    await call()
                self.latencies[commit].add(time.monotonic() - began_s)
        except Exception as error:
            self.failed[commit] += 1
            if isinstance(error, TimeoutError):
                error = ServiceNotReady(f"no answer within {self._seconds:g} s")
            self._unreached.failed(where, txn_id, error)
            raise error from None
        finally:
            self.pending -= 1
