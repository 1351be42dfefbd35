"""Compacts one topic's log into a new ledger. `compaction_rules.py` decides which messages are kept; this module reads
and writes.

1. Read all messages up to the present end of the log, to learn each key's last message: first those that the last
   compaction kept, then the log after them.
2. Read all these messages again, write the messages that are kept to a new ledger in the log's order, and close the
   ledger.
3. Move the cursor `__compaction` to the position where step 1 ended, with the new ledger's id as a property. Once this
   change is stored, the new ledger is in use.
4. Delete the old ledger.

`CompactionRun` does steps 1 and 2, `TopicCompaction` steps 3 and 4. If the process dies before step 3, the old ledger
stays in use and the new ledger is never deleted; if the process dies between steps 3 and 4, the old ledger is never
deleted. Nothing looks for such leftover ledgers; Apache's broker does not look for them either.

Sources: AbstractTwoPhaseCompactor, CompactedTopicImpl.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from magnetar.server.compaction.compacted_entries import compacted_to, encode_entry
from magnetar.server.compaction.compacted_ledger import CompactedLedger, KeptMessage
from magnetar.server.compaction.compaction_rules import LatestMessages
from magnetar.server.compaction.stored_entry import ChangedBatch, EntryKind, StoredEntry, open_entry
from magnetar.server.process.turns import Turns
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.period_buckets import LatencyBuckets
from pulsar_proto.ids import EARLIEST, Position, TxnId
from pulsar_proto.records.entry_digest import DigestType
from pulsar_proto.records.payload import txn_of

log = logging.getLogger(__name__)

READ_ENTRIES_MAX = 100
READ_BYTES_MAX = 1 << 18
"""The largest single read in bytes. It makes some 10 ms of work when messages are small; other work of the loop gets
its turn between two reads."""

UNWRITTEN_BYTES_MAX = 4 << 20
"""How many bytes may be on their way to bookies before step 2 waits."""


class Compacted(NamedTuple):
    """The result of a run. `ledger_id` is None when there was nothing to compact."""

    ledger_id: int | None
    horizon: Position
    """The last position of the log that the run looked at."""
    removed: int
    """How many messages the run dropped."""
    entries: int
    size_bytes: int
    read_bytes: int


class LogToCompact(Protocol):
    """The methods of a managed ledger that compaction uses to read."""

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def first_position(self) -> Position: ...

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun: ...


class CompactionSource(NamedTuple):
    """The messages that are compacted."""

    log: LogToCompact
    is_aborted: Callable[[TxnId], bool] = lambda txn_id: False
    """Says whether a transaction was aborted, so that its messages are left out."""


class CompactionRun:
    """One compaction of one topic."""

    def __init__(
        self,
        name: str,
        source: CompactionSource,
        old: CompactedLedger | None,
        bookkeeper: BookKeeper,
        quorums: tuple[int, int, int],
        *,
        retain_null_key: bool,
        batch_bytes_max: int,
    ) -> None:
        """`name` is the topic's full name, and `old` the compacted ledger in use. A batch that is larger than
        `batch_bytes_max` before compression is kept as a whole. `retain_null_key` says whether messages without a key
        are kept."""
        self._name = name
        self._log, self._is_aborted = source
        self._old = old
        self._bookkeeper = bookkeeper
        self._quorums = quorums
        self._latest = LatestMessages(retain_null_key=retain_null_key)
        self._batch_bytes_max = batch_bytes_max
        self._turns = Turns()
        self._end = source.log.last_confirmed
        self._read_bytes = 0
        self.write_latency = LatencyBuckets()
        """The written entries by the time that writing took, as a period that ends with the run."""

    async def run(self) -> Compacted:
        """Does steps 1 and 2 of the module's list, and returns the result. Deletes the new ledger after an error.
        Raises LedgerError, ManagedLedgerError, MalformedRecord."""
        horizon = EARLIEST if self._old is None else self._old.horizon
        if self._end.entry_id < 0 or self._end <= horizon or self._end < self._log.first_position:
            return Compacted(None, horizon, 0, 0, 0, 0)
        async for position, entry in self._entries():
            await self._turns.run(self._latest.see(position, entry))
        log.info("%s: compacting up to %s, %d keys", self._name, self._end, len(self._latest))
        handle = await self._created()
        try:
            entries = await self._write(_Writing(handle, self.write_latency))
            await handle.close()
        except BaseException:
            await self._drop(handle)
            raise
        return Compacted(handle.ledger_id, self._end, self._latest.removed, entries, handle.length, self._read_bytes)

    async def _write(self, writing: "_Writing") -> int:
        """Writes the kept messages. Returns the number of entries once all are confirmed. Raises LedgerError."""
        entries = 0
        async for position, entry in self._entries():
            kept = await self._turns.run(self._latest.kept(position, entry))
            if kept is not None:
                payload = await kept.payload() if isinstance(kept, ChangedBatch) else kept
                entries += 1
                await writing.add(encode_entry(position, payload))
        await writing.finish()
        return entries

    async def _entries(self) -> AsyncIterator[tuple[Position, StoredEntry]]:
        async for messages in self._look():
            for position, payload in messages:
                entry = await open_entry(payload, self._batch_bytes_max, self._turns)
                txn_id = txn_of(entry.metadata)
                if txn_id is None or entry.kind is EntryKind.MARKER or not self._is_aborted(txn_id):
                    yield position, entry
                await self._turns.breathe()

    async def _look(self) -> AsyncIterator[Sequence[KeptMessage]]:
        """Yields all entries that are to be compacted, in groups and in the log's order; steps 1 and 2 get the same
        entries."""
        after = Position(-1, -1)
        if self._old is not None:
            index = 0
            while messages := await self._old.read(index, READ_ENTRIES_MAX, READ_BYTES_MAX):
                index += len(messages)
                self._read_bytes += sum(len(each.payload) for each in messages)
                yield messages
            after = self._old.horizon
        while after < self._end:
            run = await self._log.read(Position(after.ledger_id, after.entry_id + 1), READ_ENTRIES_MAX, READ_BYTES_MAX)
            offset = run.payload_offset
            messages = [
                KeptMessage(Position(run.ledger_id, entry_id), entry[offset:])
                for entry_id, entry in enumerate(run.entries, run.first_entry_id)
                if (run.ledger_id, entry_id) <= self._end
            ]
            if not messages:
                return
            after = messages[-1].position
            self._read_bytes += sum(len(each.payload) for each in messages)
            yield messages

    async def _created(self) -> WriteHandle:
        """Returns the new ledger. A run that is cancelled meanwhile waits for the ledger and deletes it, because nobody
        else would know of it."""
        creating = asyncio.ensure_future(self._create())
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            with suppress(LedgerError):
                await self._drop(await creating)
            raise

    async def _create(self) -> WriteHandle:
        ensemble, write, ack = self._quorums
        return await self._bookkeeper.create_ledger(
            ensemble_size=ensemble,
            write_quorum=write,
            ack_quorum=ack,
            digest_type=DigestType.CRC32,
            custom_metadata={
                "application": b"pulsar",
                "component": b"compacted-ledger",
                "pulsar/compactedTopic": self._name.encode(),
                "pulsar/compactedTo": compacted_to(self._end),
            },
        )

    async def _drop(self, handle: WriteHandle) -> None:
        """Deletes the new ledger after a failure. If the deletion fails too, logs that the ledger remains."""
        await handle.abandon()
        try:
            await self._bookkeeper.delete_ledger(handle.ledger_id)
        except LedgerError as error:
            log.warning("%s: ledger %d is left behind: %s", self._name, handle.ledger_id, error)


class _Writing:
    """Writes the new ledger in step 2: it appends entries in groups, and bounds the bytes that are not confirmed."""

    def __init__(self, handle: WriteHandle, latency: LatencyBuckets) -> None:
        """`latency` counts the entries by the time from their append to its confirmation."""
        self._handle = handle
        self._group: list[bytes] = []
        self._group_bytes = 0
        self._under_way = 0
        self._error: LedgerError | None = None
        self._progress = asyncio.Event()
        self._sent_s: deque[float] = deque()
        self._latency = latency

    async def add(self, entry: bytes) -> None:
        """Writes one entry, and waits while too many bytes are not confirmed. Raises LedgerError when an earlier append
        failed."""
        self._group.append(entry)
        self._group_bytes += len(entry)
        if len(self._group) >= READ_ENTRIES_MAX or self._group_bytes >= READ_BYTES_MAX:
            await self._send(UNWRITTEN_BYTES_MAX)

    async def finish(self) -> None:
        """Returns when all entries are confirmed. Raises LedgerError."""
        await self._send(0)

    async def _send(self, unwritten_bytes_max: int) -> None:
        if self._group:
            self._under_way += self._group_bytes
            self._sent_s.append(time.monotonic())
            self._handle.append(self._group, self._stored)
            self._group, self._group_bytes = [], 0
        await self._until_at_most(unwritten_bytes_max)

    def _stored(self, append: Append) -> None:
        self._latency.add(time.monotonic() - self._sent_s.popleft(), len(append.entries))
        if append.error is not None:
            self._error = append.error
        self._under_way -= self._payload_bytes(append)
        self._progress.set()

    def _payload_bytes(self, append: Append) -> int:
        return sum(len(entry) - self._handle.payload_offset for entry in append.entries)

    async def _until_at_most(self, size_bytes: int) -> None:
        while self._under_way > size_bytes and self._error is None:
            self._progress.clear()
            await self._progress.wait()
        if self._error is not None:
            raise self._error
