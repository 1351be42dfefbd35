"""The log of one subscription's acknowledgements in transactions: a managed ledger beside that of the topic.

`PendingAckLogs` opens and deletes the logs of all subscriptions, `PendingAckLog` is one of them. Source:
MLPendingAckStore, MLPendingAckStoreProvider.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from magnetar.server.process.task_failures import mark_seen
from magnetar.server.process.turns import Steps, Turns, in_slices
from magnetar.server.topics.subscriptions.pending_acks.log_trimming_rules import LogIndex
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.server.transactions.log_place import LogPlace
from magnetar.server.transactions.log_writer import Batching, LogWriter
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError, NoSuchManagedLedger
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.names import TopicName, encode_local
from pulsar_proto.records.pending_ack_log import (
    PendingAckRecord,
    PendingPosition,
    parse_pending_ack_entry,
    pending_ack_entry,
)
from pulsar_proto.system_topics import PENDING_ACK_SUFFIX

log = logging.getLogger(__name__)

CURSOR = "__pending_ack_state"

READ_ENTRIES = 100
READ_BYTES = 1 << 20
"""How much of the log one read brings while it is replayed."""

_POSITION = itemgetter(0, 1)
"""The ledger and the entry of a `PendingPosition`."""

Stored = Callable[[ManagedLedgerError | None], None]
"""Called once when records are stored, with None, or with the error when it is unknown whether they are."""


def log_name(topic: TopicName, subscription: str) -> str:
    """Returns the name of the managed ledger that holds a subscription's log
    (MLPendingAckStore.getTransactionPendingAckStoreSuffix)."""
    local = encode_local(f"{topic.local_name}-{subscription}{PENDING_ACK_SUFFIX}")
    return f"{topic.namespace}/{topic.domain}/{local}"


class PendingAckLog:
    """The log of one subscription, open. `PendingAckLogs.open` creates it."""

    def __init__(self, ledger: ManagedLedger, cursor: Cursor, transactions: TransactionSupport) -> None:
        settings = transactions.settings
        self.ledger = ledger
        self._cursor = cursor
        self._index = LogIndex(settings.transaction_pending_ack_log_index_min_lag)
        batching = Batching(
            settings.transaction_pending_ack_batched_write_max_records,
            settings.transaction_pending_ack_batched_write_max_size,
            settings.transaction_pending_ack_batched_write_max_delay_in_millis,
        )
        is_batching = settings.transaction_pending_ack_batched_write_enabled
        self._writer = LogWriter(ledger, batching if is_batching else None, transactions.pending_ack_batches)

    async def replay(self, apply: Callable[[PendingAckRecord], Steps[None]]) -> None:
        """Does the work of `apply` for all records that are still needed, in order and in portions. Raises
        ManagedLedgerError, and MalformedRecord for an entry that is none of a pending-ack log."""
        turns = Turns()
        position = self._cursor.next_unacked(self._cursor.mark_delete)
        while position <= self.ledger.last_confirmed:
            run = await self.ledger.read(position, READ_ENTRIES, READ_BYTES)
            if not run.entries:
                return
            for entry_id, entry in enumerate(run.entries, run.first_entry_id):
                for record in await turns.run(parse_pending_ack_entry(entry[run.payload_offset :])):
                    await turns.run(apply(record))
                    reach = EARLIEST
                    async for some in in_slices(record.positions):
                        reach = max(reach, _reach(some))
                    self._index.add(Position(run.ledger_id, entry_id), reach)
            position = self.ledger.next_position(Position(run.ledger_id, run.end_entry_id - 1))

    def append(self, records: Sequence[PendingAckRecord], stored: Stored) -> None:
        """Appends records. `stored` is called in the order of the calls of this method, never from inside of it."""

        for record in records[:-1]:
            self._writer.append(pending_ack_entry(record), partial(self._appended, record, None))
        # Records become durable in order, so the last one has an error if any has.
        self._writer.append(pending_ack_entry(records[-1]), partial(self._appended, records[-1], stored))

    def stored(self, records: Sequence[PendingAckRecord]) -> "asyncio.Future[None]":
        """Appends records. The result comes when they are durable; it raises ManagedLedgerError when it is unknown
        whether they are."""
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: ManagedLedgerError | None) -> None:
            if result.cancelled():
                return
            if error is None:
                result.set_result(None)
            else:
                result.set_exception(error)

        self.append(records, done)
        result.add_done_callback(mark_seen)
        return result

    def push(self) -> None:
        """Has the log store at once what was appended, unless the broker makes batches of records."""
        self._writer.push()

    def _appended(self, record: PendingAckRecord, stored: Stored | None, result: LogPlace | ManagedLedgerError) -> None:
        error = result if isinstance(result, ManagedLedgerError) else None
        if isinstance(result, LogPlace):
            self._index.add(Position(result.ledger_id, result.entry_id), _reach(record.positions))
        if stored is not None:
            stored(error)

    @property
    def last(self) -> Position:
        """The position of the last record that is stored, EARLIEST if there is none."""
        return self._index.last

    def trim(self, acks: Cursor) -> None:
        """Deletes what is needed no more, once the subscription's cursor has stored its mark-delete position."""
        passed = self._index.take_passed(acks.mark_delete)
        if passed is None:
            return

        def persisted(error: ManagedLedgerError | None) -> None:
            if error is None:  # otherwise the stretch goes together with the next one
                self._cursor.ack_cumulative(*passed)

        acks.when_persisted(persisted)

    async def forget_until(self, position: Position) -> None:
        """Returns when no record up to the position will be replayed any more. Raises ManagedLedgerError."""
        self._cursor.ack_cumulative(*position)
        await self._cursor.persisted()


class PendingAckLogs:
    """Opens the logs of subscriptions. There is one object in the broker."""

    def __init__(self, factory: ManagedLedgerFactory, transactions: TransactionSupport | None) -> None:
        """`transactions` is None while transactions are switched off. Then logs of an earlier time are only deleted,
        together with their subscriptions."""
        self._factory = factory
        self.transactions = transactions

    async def exists(self, topic: TopicName, subscription: str) -> bool:
        """Whether the subscription has a log. Raises MetaStoreFault."""
        return await self._factory.exists(log_name(topic, subscription))

    async def open(
        self,
        topic: TopicName,
        subscription: str,
        config: ManagedLedgerConfig,
        on_lost: Callable[[ManagedLedgerError], None],
    ) -> PendingAckLog:
        """Opens a subscription's log, and makes it if there is none. `config` is that of the topic's managed ledger,
        whose retention does not hold for the log. `on_lost` is called when another broker has taken the log over.
        Raises ManagedLedgerError."""
        config = replace(config, retention_time_minutes=0, retention_size_mb=0, message_ttl_seconds=0)
        ledger = await self._factory.open(log_name(topic, subscription), config)
        cursor = await ledger.open_cursor(CURSOR, EARLIEST)
        ledger.on_fenced(on_lost)
        assert self.transactions is not None, "no log is opened while transactions are off"
        return PendingAckLog(ledger, cursor, self.transactions)

    async def close(self, topic: TopicName, subscription: str) -> None:
        """Closes a subscription's log, if it is open."""
        await self._factory.close_ledger(log_name(topic, subscription))

    async def delete(self, topic: TopicName, subscription: str) -> None:
        """Deletes a subscription's log, if it has one. Raises MetaStoreFault."""
        try:
            if await self.exists(topic, subscription):
                await self._factory.delete(log_name(topic, subscription))
        except NoSuchManagedLedger:
            log.info("%s / %s: the pending-ack log was deleted meanwhile", topic, subscription)


def _reach(positions: Sequence[PendingPosition]) -> Position:
    """Returns the largest of these positions of messages, or EARLIEST if there are none."""
    return Position(*max(map(_POSITION, positions))) if positions else EARLIEST
