"""Ends the transactions of one coordinator: stores the decision, tells every topic and subscription, stores the end.

An ending goes on until every participant has answered, however often that takes. Between two attempts it waits without
a task, longer each time, so that endings whose participants are away keep no other ending from its turn. Participants
that have answered are not asked again by the next attempt. Source: TransactionMetadataStoreService.endTransaction.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from magnetar.server.process.task_failures import mark_seen
from magnetar.server.process.turns import for_each
from magnetar.server.transactions.coordinator_rules import Transaction
from magnetar.server.transactions.end_calls import EndCalls
from pulsar_proto.errors import InvalidTxnStatus, TransactionCoordinatorNotFound
from pulsar_proto.ids import TxnId
from pulsar_proto.records.transaction_log import TxnStatus

log = logging.getLogger(__name__)

ATTEMPTS_AT_ONCE = 1_000
"""How many transactions of a coordinator are being ended at the same time. Further ones wait for their turn."""
CALLS_OF_ONE_MAX = 16
"""How many participants of one transaction are told at the same time."""
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 32.0
"""How long an ending waits at most before its next attempt: at first as long as in Apache's broker, and twice as long
after each further failure."""
GOLDEN_RATIO = 0.618034
"""The multiples of this number, without their integer parts, are spread evenly however many there are."""


def retry_seconds(attempts: int, least: int) -> float:
    """Returns how long the ending of transaction `least` waits after so many failed attempts. The times of transactions
    that fail together are spread over the second half of the wait, so that their attempts do not come together."""
    longest = min(RETRY_SECONDS_MIN * (1 << min(attempts, 16)), RETRY_SECONDS_MAX)
    return longest * (1 - least * GOLDEN_RATIO % 1 / 2)


class NotAllTold(Exception):
    """Some topics or subscriptions of a transaction have not confirmed its end."""


class StatusWriter(Protocol):
    """What endings need of the coordinator."""

    @property
    def low_watermark(self) -> int: ...

    def change_status(self, transaction: Transaction, new: TxnStatus) -> Awaitable[TxnId]:
        """Stores a change of a transaction's status, and makes it. The call and the result raise PulsarError."""


class Ending:
    """The end of one transaction, from the request to the last answer."""

    __slots__ = ("attempts", "commit", "done", "partitions", "subscriptions", "transaction")

    def __init__(self, transaction: Transaction, commit: bool) -> None:
        self.transaction = transaction
        self.commit = commit
        self.done: asyncio.Future[TxnId] = asyncio.get_running_loop().create_future()
        """Is done when the transaction has ended, with its id."""
        self.attempts = 0
        self.partitions: list[str] | None = None
        """The partitions that have not answered yet; None before the decision is stored."""
        self.subscriptions: list[tuple[str, str]] = []
        """The subscriptions that have not answered yet."""


class _Call(NamedTuple):
    """What tells one participant."""

    begin: Callable[[], Awaitable[None]]
    confirmed: Callable[[], None]
    """Called when the participant has answered."""


class Endings:
    """The endings of one coordinator. Every method is called on the event loop's thread."""

    def __init__(self, writer: StatusWriter, calls: EndCalls) -> None:
        self._writer = writer
        self._calls = calls
        self._by_id: dict[TxnId, Ending] = {}
        self._waiting: deque[Ending] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[Ending, asyncio.TimerHandle] = {}
        self._is_closed = False

    def begin(self, transaction: Transaction, *, commit: bool) -> "asyncio.Future[TxnId]":
        """Begins to end a transaction, or joins the ending that is under way. Returns a future that many callers may
        wait for (`asyncio.shield`); its error is TransactionCoordinatorNotFound when the coordinator closes first.
        Raises InvalidTxnStatus when the transaction is being ended in the other way."""
        ending = self._by_id.get(transaction.txn_id)
        if ending is None:
            ending = self._by_id[transaction.txn_id] = Ending(transaction, commit)
            ending.done.add_done_callback(mark_seen)
            self._waiting.append(ending)
            self._start()
        elif ending.commit is not commit:
            way = "committed" if ending.commit else "aborted"
            raise InvalidTxnStatus(f"Expect Txn `{transaction.txn_id}` to be in OPEN status but it is being {way}")
        return ending.done

    def is_ending(self, txn_id: TxnId) -> bool:
        return txn_id in self._by_id

    def close(self, reason: str) -> None:
        """Breaks all endings off. The coordinator that opens the log next finishes them."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        for ending in self._by_id.values():
            if not ending.done.done():
                ending.done.set_exception(TransactionCoordinatorNotFound(reason))
        self._by_id.clear()
        self._waiting.clear()
        self._timers.clear()

    def _start(self) -> None:
        while self._waiting and len(self._tasks) < ATTEMPTS_AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._attempt(self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an ending of a transaction failed", exc_info=task.exception())
        if not self._is_closed:
            self._start()

    async def _attempt(self, ending: Ending) -> None:
        transaction = ending.transaction
        decision = TxnStatus.COMMITTING if ending.commit else TxnStatus.ABORTING
        try:
            if ending.partitions is None:
                await self._writer.change_status(transaction, decision)
                ending.partitions = list(transaction.partitions)
                ending.subscriptions = list(transaction.subscriptions)
            await self._tell_participants(ending, ending.partitions)
            await self._writer.change_status(transaction, TxnStatus.COMMITTED if ending.commit else TxnStatus.ABORTED)
        except Exception as error:
            if self._is_closed:
                return
            if not isinstance(error, NotAllTold):
                log.warning("transaction %s has not ended yet, tried again: %s", transaction.txn_id, error)
            self._again(ending)
            return
        self._by_id.pop(transaction.txn_id, None)
        if not ending.done.done():
            ending.done.set_result(transaction.txn_id)

    async def _tell_participants(self, ending: Ending, partitions: list[str]) -> None:
        """Tells the participants that have not answered yet. Raises NotAllTold, after all were asked."""
        calls = list(self._calls_of(ending, partitions))
        try:
            if len(calls) > CALLS_OF_ONE_MAX:
                await for_each(calls, _told, at_once=CALLS_OF_ONE_MAX)
            elif calls:
                await _all_told(calls)
        except Exception as error:
            raise NotAllTold(str(error)) from error  # `EndCalls` has logged it

    def _calls_of(self, ending: Ending, partitions: list[str]) -> Iterator[_Call]:
        calls, txn_id, commit, low_watermark = (
            self._calls,
            ending.transaction.txn_id,
            ending.commit,
            self._writer.low_watermark,
        )
        for pair in ending.subscriptions:
            begin = partial(calls.on_subscription, *pair, txn_id, commit, low_watermark)
            yield _Call(begin, partial(ending.subscriptions.remove, pair))
        for partition in partitions:
            begin = partial(calls.on_partition, partition, txn_id, commit, low_watermark)
            yield _Call(begin, partial(partitions.remove, partition))

    def _again(self, ending: Ending) -> None:
        """Has the next attempt made later."""
        seconds = retry_seconds(ending.attempts, ending.transaction.txn_id.least)
        ending.attempts += 1

        def retry() -> None:
            del self._timers[ending]
            self._waiting.append(ending)
            self._start()

        self._timers[ending] = asyncio.get_running_loop().call_later(seconds, retry)


async def _told(call: _Call) -> None:
    await call.begin()
    call.confirmed()


async def _all_told(calls: list[_Call]) -> None:
    """Makes all calls at the same time. Raises the first error after all have ended."""
    answers = [asyncio.ensure_future(call.begin()) for call in calls]
    try:
        await asyncio.wait(answers)
    except asyncio.CancelledError:
        for answer in answers:
            if isinstance(answer, asyncio.Task):  # nobody else waits for it
                answer.cancel()
        raise
    first: BaseException | None = None
    for call, answer in zip(calls, answers, strict=True):
        error = answer.exception()
        if error is None:
            call.confirmed()
        else:
            first = first or error
    if first is not None:
        raise first
