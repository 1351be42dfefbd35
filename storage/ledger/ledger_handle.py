"""The handle of a ledger that is being written. `read_handle.ReadHandle` is the handle of a ledger for reading."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.append_rules import ENDED
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from magnetar.storage.ledger.bookie_channel import LacChannel
from magnetar.storage.ledger.bookie_preference import NO_PREFERENCE, BookiePreference
from magnetar.storage.ledger.channel_lookup import ChannelOf, find_channel
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ensemble_writer import EnsembleWriter
from magnetar.storage.ledger.fragment_rules import last_fragment, writer_closed, writer_ensemble
from magnetar.storage.ledger.ledger_errors import (
    BookieHandleNotAvailable,
    ClientClosed,
    IllegalOperation,
    LedgerClosed,
    LedgerError,
    error_class,
)
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver, VersionedMetadata
from magnetar.storage.ledger.placement_rules import ReplaceFailed
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.ledger.read_handle import READ_BYTES_MAX, check_range
from magnetar.storage.ledger.replica_reader import ReplicaReader
from pulsar_proto.records.entry_digest import EntryCodec, entry_length
from pulsar_proto.records.ledger_record import LedgerMetadata
from pulsar_proto.wire.bookie_wire import BookieError

logger = logging.getLogger(__name__)


class StoredEnsembles:
    """The `EnsembleKeeper` of a ledger's own writer: each change is a compare-and-set on the ledger's metadata, whose
    last known value is kept here."""

    def __init__(self, driver: LedgerMetadataDriver, ledger: VersionedMetadata, replace_failed: ReplaceFailed) -> None:
        self._driver = driver
        self._replace_failed = replace_failed
        self.ledger = ledger

    async def replace(self, failed: Mapping[int, str], first_entry_id: int) -> Sequence[str]:
        self.ledger = await self._driver.update(
            self.ledger,
            lambda metadata: writer_ensemble(
                metadata, first_entry_id, lambda members: self._replace_failed(members, failed)
            ),
        )
        return last_fragment(self.ledger.metadata).members

    async def close(self, last_entry_id: int, length: int) -> None:
        self.ledger = await self._driver.update(
            self.ledger, lambda metadata: writer_closed(metadata, last_entry_id, length)
        )


class WriteHandle:
    """A new ledger, to which only this process appends.

    Each append keeps its entries in memory until it is confirmed or has failed, so the caller has to limit how many
    appends are pending.
    """

    __slots__ = (
        "__weakref__",
        "_channel_of",
        "_closing",
        "_codec",
        "_end_error",
        "_ensembles",
        "_lac_told",
        "_loop",
        "_machine",
        "_master_key",
        "_on_end",
        "_reader",
        "_writer",
        "ledger_id",
        "payload_offset",
    )

    def __init__(
        self,
        ensembles: StoredEnsembles,
        codec: EntryCodec,
        master_key: bytes,
        *,
        channel_of: ChannelOf,
        config: LedgerConfig,
        on_end: Callable[["WriteHandle"], None],
        preference: BookiePreference = NO_PREFERENCE,
        appends: AppendsUnderWay | None = None,
    ) -> None:
        metadata = ensembles.ledger.metadata
        self._channel_of = channel_of
        self._master_key = master_key
        self._lac_told = -1
        """The highest LAC that the bookies know, either from the header of the last entry sent or from an explicit
        LAC."""
        self.ledger_id = metadata.ledger_id
        self.payload_offset = codec.payload_offset
        """How many bytes stand before the payload in each stored entry."""
        self._loop = asyncio.get_running_loop()
        self._codec = codec
        self._ensembles = ensembles
        self._on_end = on_end
        self._reader = ReplicaReader(metadata.ledger_id, master_key, codec, channel_of, config, preference)
        self._writer = EnsembleWriter(
            metadata.ledger_id,
            master_key,
            last_fragment(metadata).members,
            (metadata.write_quorum, metadata.ack_quorum),
            channel_of=channel_of,
            keeper=ensembles,
            config=config,
            preference=preference,
            appends=appends,
            on_end=self._ended,
        )
        self._machine = self._writer.machine
        self._end_error: LedgerError | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def last_add_confirmed(self) -> int:
        """The highest entry id that was confirmed to the caller; -1 when there is none."""
        return self._machine.last_add_confirmed

    @property
    def last_add_pushed(self) -> int:
        """The highest entry id that was assigned. Once the handle has ended, this id equals the LAC."""
        return self._machine.last_add_pushed

    @property
    def length(self) -> int:
        """The payload bytes of all entries that got an id; once the handle has ended, of the confirmed entries."""
        return self._machine.length

    @property
    def is_open(self) -> bool:
        """Whether the handle takes appends: True until `close` is called or the writer fails. Every later append
        fails."""
        return self._machine.phase is not ENDED

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this handle last wrote or read it."""
        return self._ensembles.ledger.metadata

    def append(self, payloads: Sequence[bytes], done: Callable[[Append], None]) -> Append:
        """Adds one entry for each payload, at least one, as a group.

        `done(append)` is called once, on the loop, in order of append, never from inside this call. Its `error` is None
        when all entries of this group and of all earlier groups reached the ack quorum, otherwise the LedgerError that
        ended the handle. Entries that failed do not count for this handle, but recovery may have made them part of the
        ledger.
        """
        machine = self._machine
        if machine.phase is ENDED:
            return self._refuse(payloads, done)
        first = machine.last_add_pushed + 1
        lac = self._lac_told = machine.last_add_confirmed
        entries = self._codec.pack_run(first, lac, machine.length, payloads)
        append = Append(first, entries, entry_length(entries[-1]), done)
        self._writer.submit(append)
        return append

    async def add(self, payload: bytes) -> int:
        """Adds one entry and returns its id once it is confirmed. Raises LedgerError."""
        outcome: asyncio.Future[None] = self._loop.create_future()

        def done(append: Append) -> None:
            if outcome.cancelled():
                return
            error = append.error
            if error is None:
                outcome.set_result(None)
            else:
                # One error may fail the entries of many tasks: each task raises an exception of its own.
                outcome.set_exception(type(error)(str(error)))

        append = self.append([payload], done)
        await outcome
        return append.first_entry_id

    async def read(self, first: int, last: int, max_bytes: int = READ_BYTES_MAX) -> list[bytes]:
        """Returns confirmed entries of the ledger that is being written, from `first` on without a gap. Limits and
        errors are those of `ReadHandle.read`."""
        check_range(self.ledger_id, first, last, self.last_add_confirmed)
        return await self._reader.read(self.metadata, first, last, max_bytes)

    async def tell_lac(self) -> None:
        """Writes the LAC to the bookies of its entry (explicit LAC), so that readers that follow the ledger see the
        last entries before another one is added. Returns at once when an entry has carried this LAC already, or when
        the handle has ended. Raises IllegalOperation when the bookies do not speak protocol v3, otherwise the error of
        one of the failed bookies (a LedgerError) when too few bookies answered for an ack quorum."""
        lac = self.last_add_confirmed
        if not self.is_open or lac <= self._lac_told:
            return
        metadata = self.metadata
        members = self._machine.ensemble
        asks = [
            self._tell_lac(members[index], lac)
            for index in write_set(lac, metadata.ensemble_size, metadata.write_quorum)
        ]
        results = await asyncio.gather(*asks, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if len(results) - len(failures) < metadata.ack_quorum:
            raise failures[0]
        self._lac_told = max(lac, self._lac_told)

    async def _tell_lac(self, bookie: str, lac: int) -> None:
        channel = find_channel(self._channel_of, bookie)
        if not isinstance(channel, LacChannel):
            raise IllegalOperation(f"bookie {bookie} takes no LAC by itself")
        try:
            await channel.write_lac(self.ledger_id, lac, self._master_key, self._codec.pack_lac(lac))
        except (BookieError, OSError) as error:  # TimeoutError is an OSError
            rc = int(error.rc) if isinstance(error, BookieError) else BookieHandleNotAvailable.code
            raise error_class(rc, reading=False)(f"ledger {self.ledger_id}, bookie {bookie}: {error}") from error

    async def close(self) -> None:
        """Ends the writer and closes the ledger at its LAC. Appends that are not confirmed fail with LedgerClosed
        first.

        Idempotent, also after a failed append, which starts a close by itself. Raises LedgerFenced or MetadataVersion
        when another client has taken over the ledger, and LedgerMetadataFault when the metadata store failed; another
        call then tries again.
        """
        closing = self._closing
        if closing is None or (closing.done() and not closing.cancelled() and closing.exception() is not None):
            closing = self._start_closing()
        await asyncio.shield(closing)

    async def abandon(self) -> None:
        """Ends the writer without closing the ledger, like a process that dies; the next client that opens the ledger
        recovers it."""
        self._writer.end(ClientClosed(f"ledger {self.ledger_id}: the client was closed"))
        await self._writer.settled()
        if self._closing is not None:
            await asyncio.wait([self._closing])

    def _refuse(self, payloads: Sequence[bytes], done: Callable[[Append], None]) -> Append:
        append = Append(self._machine.last_add_pushed + 1, payloads, self._machine.length, done)
        append.error = self._end_error
        self._loop.call_soon(done, append)
        return append

    def _ended(self, error: LedgerError) -> None:
        """Called when the writer has taken its last entry. After a failure the ledger is closed at once, so that
        readers need no recovery."""
        self._end_error = error
        self._on_end(self)
        if isinstance(error, (LedgerClosed, ClientClosed)):
            return
        logger.warning(
            "ledger %d: writer ended at entry %d: %s: %s",
            self.ledger_id,
            self.last_add_confirmed,
            type(error).__name__,
            error,
        )
        if self._closing is None:
            self._start_closing()

    def _start_closing(self) -> asyncio.Task[None]:
        self._writer.end(LedgerClosed(f"ledger {self.ledger_id} was closed"))
        self._closing = self._loop.create_task(self._close())
        self._closing.add_done_callback(self._log_closing)
        return self._closing

    async def _close(self) -> None:
        await self._writer.settled()
        await self._ensembles.close(self._machine.last_add_confirmed, self._machine.length_confirmed)

    def _log_closing(self, closing: asyncio.Task[None]) -> None:
        if closing.cancelled():
            return
        error = closing.exception()
        if error is None:
            logger.info(
                "ledger %d: closed at entry %d, length %d",
                self.ledger_id,
                self.last_add_confirmed,
                self._machine.length_confirmed,
            )
        else:
            logger.warning("ledger %d: not closed: %s: %s", self.ledger_id, type(error).__name__, error)
