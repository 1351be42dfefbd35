"""The log of one transaction coordinator: a managed ledger, and a cursor that keeps the records of transactions that
have not ended.

The records of a transaction that has ended are acknowledged on the cursor, so that ledgers of which nothing is needed
are deleted. The coordinator's count is in every record, and among the properties of the managed ledger, because the
ledger with the last record may be deleted.

Source: MLTransactionLogImpl, MLTransactionSequenceIdGenerator.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.process.turns import Turns, in_slices
from magnetar.server.transactions.batch_counters import BatchCounters
from magnetar.server.transactions.log_place import LogPlace, acks_of, is_left, places_in
from magnetar.server.transactions.log_writer import Batching, LogWriter, RecordDone
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.names import TopicName
from pulsar_proto.records.transaction_log import Record, counter_of, parse_entry
from pulsar_proto.system_topics import TRANSACTION_LOG_PREFIX

log = logging.getLogger(__name__)

CURSOR = "transaction.subscription"
"""The name of the cursor (MLTransactionLogImpl.TRANSACTION_SUBSCRIPTION_NAME)."""
COUNTER_PROPERTY = "max_local_txn_id"
"""The property with the coordinator's count (MLTransactionSequenceIdGenerator.MAX_LOCAL_TXN_ID)."""
READ_ENTRIES = 1_000
READ_BYTES = 4 << 20
"""How much one read of a replay takes."""
RECORDS_AT_ONCE = 50
"""How many records are replayed before it is looked at whether other tasks have to run."""
DELETED_AT_ONCE = 1_000
"""How many records a replay deletes before it is looked at whether other tasks have to run."""

Apply = Callable[[Record, LogPlace], Sequence[LogPlace]]
"""Makes the change of a record that is replayed, and returns the places of the records that are useless now."""


def log_topic(coordinator_id: int) -> TopicName:
    """Returns the name of a coordinator's log as that of a topic, which is how the administration shows it."""
    return TopicName.parse(f"persistent://pulsar/system/{TRANSACTION_LOG_PREFIX}{coordinator_id}")


class TransactionLog:
    """The log of one coordinator. `TransactionLog.open` makes the object. Every method is called on the event loop's
    thread."""

    def __init__(
        self, topic: TopicName, factory: ManagedLedgerFactory, ledger: ManagedLedger, cursor: Cursor, writer: LogWriter
    ) -> None:
        self.topic = topic
        self.ledger = ledger
        self.appended = 0
        """How many records were appended since the log was opened."""
        self._factory = factory
        self._cursor = cursor
        self._writer = writer

    @classmethod
    async def open(
        cls,
        coordinator_id: int,
        factory: ManagedLedgerFactory,
        settings: TransactionSettings,
        batches: BatchCounters,
    ) -> "TransactionLog":
        """Opens the log, and makes it if there is none. From now on no other broker can append to it. `batches` counts
        the batches that this broker appends. Raises ManagedLedgerError."""
        topic = log_topic(coordinator_id)
        ledger = await factory.open(topic.managed_ledger_name)
        cursor = await ledger.open_cursor(CURSOR, EARLIEST)
        return cls(topic, factory, ledger, cursor, LogWriter(ledger, batching_of(settings), batches))

    async def replay(self, apply: Apply) -> int:
        """Calls `apply` with each record that was not deleted, in their order and in portions, and returns how many
        there were. The records of one read that turn out to be useless are deleted together, which costs a tenth of
        deleting those of each transaction. Raises ManagedLedgerError when an entry cannot be read, and
        MalformedRecord."""
        turns, count = Turns(), 0
        position = self._cursor.next_unacked(self._cursor.mark_delete)
        while run := await self.ledger.read(position, READ_ENTRIES, READ_BYTES):
            useless: list[LogPlace] = []
            for first, entries in self._cursor.unacked_runs(run.ledger_id, run.first_entry_id, len(run)):
                for entry_id in range(first, first + entries):
                    records, is_batch = parse_entry(run.entries[entry_id - run.first_entry_id][run.payload_offset :])
                    if is_batch:
                        async for record, place in self._left_of(run.ledger_id, entry_id, records, turns):
                            useless += apply(record, place)
                            count += 1
                    else:
                        useless += apply(records[0], LogPlace(run.ledger_id, entry_id))
                        count += 1
                    if is_batch or count % RECORDS_AT_ONCE == 0:
                        await turns.breathe()
            async for some in in_slices(useless, DELETED_AT_ONCE):
                self.delete(some)
            position = self._cursor.next_unacked(Position(run.ledger_id, run.end_entry_id))
        return count

    async def _left_of(
        self, ledger_id: int, entry_id: int, records: Sequence[Record], turns: Turns
    ) -> AsyncIterator[tuple[Record, LogPlace]]:
        """Yields the records of a batch that were not deleted, in portions."""
        left = self._cursor.ack_set_of(ledger_id, entry_id)
        for record, place in zip(records, places_in(ledger_id, entry_id, len(records)), strict=True):
            if left is None or is_left(left, place):
                yield record, place
            if place.slot % RECORDS_AT_ONCE == 0:
                await turns.breathe()

    async def last_counter(self) -> int:
        """Returns the coordinator's last count, or -1 for a new log. Raises ManagedLedgerError when the last entry
        cannot be read, and MalformedRecord for an entry or a property that makes no sense."""
        text = self.ledger.properties.get(COUNTER_PROPERTY, "-1")
        try:
            counter = int(text)
        except ValueError:
            raise MalformedRecord(f"{self.topic}: the property {COUNTER_PROPERTY} is {text!r}") from None
        last = self.ledger.last_confirmed
        if last < self.ledger.first_position:
            return counter
        run = await self.ledger.read(last, 1, READ_BYTES)
        for record in parse_entry(run.entries[0][run.payload_offset :])[0] if run else ():
            counter = max(counter, counter_of(record))
        return counter

    def keep_counter(self, counter: Callable[[], int]) -> None:
        """Stores the coordinator's count with every later change of the ledger list."""

        def properties() -> Mapping[str, str]:
            return {COUNTER_PROPERTY: str(counter())}

        self.ledger.keep_latest(properties)

    def append(self, record: Record, done: RecordDone, *, is_awaited: bool = True) -> None:
        """Appends a record; see `LogWriter.append`."""
        self.appended += 1
        self._writer.append(record.SerializeToString(), done, is_awaited=is_awaited)

    def delete(self, places: Iterable[LogPlace]) -> None:
        """Deletes records. The deletion becomes durable later; until then a replay finds the records again."""
        self._cursor.ack(acks_of(places))

    def on_lost(self, callback: Callable[[ManagedLedgerError], None]) -> None:
        """Calls `callback` once when another broker has opened the log. Nothing can be appended any more."""
        self.ledger.on_fenced(callback)

    async def close(self) -> None:
        """Stores what the cursor has not stored yet, and closes the log. Raises ManagedLedgerError."""
        self._writer.flush()
        await self._factory.close_ledger(self.topic.managed_ledger_name)


def batching_of(settings: TransactionSettings) -> Batching | None:
    """Returns how a coordinator puts records together, or None when each record is an entry."""
    if not settings.transaction_log_batched_write_enabled:
        return None
    return Batching(
        settings.transaction_log_batched_write_max_records,
        settings.transaction_log_batched_write_max_size,
        settings.transaction_log_batched_write_max_delay_in_millis,
    )
