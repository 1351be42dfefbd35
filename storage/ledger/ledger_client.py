"""The ledger client: creates, opens, recovers and deletes ledgers.

`BookKeeper` hands out a `WriteHandle` (`ledger_handle`) or a `ReadHandle` (`read_handle`), a `WriteAdvHandle`
(`adv_handle`) whose caller chooses the entry ids, or a `TailHandle` (`tailing`) that follows a ledger while it is being
written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from random import Random
from types import MappingProxyType

from magnetar.metadata.store import MetadataStore
from magnetar.storage.ledger.adv_handle import WriteAdvHandle
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from magnetar.storage.ledger.bookie_health import BookieHealth
from magnetar.storage.ledger.bookie_preference import BookiePreference
from magnetar.storage.ledger.channel_lookup import ChannelOf
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.last_confirmed import ask_last_entries
from magnetar.storage.ledger.ledger_errors import ClientClosed, IncorrectParameter, LedgerError, UnauthorizedAccess
from magnetar.storage.ledger.ledger_handle import StoredEnsembles, WriteHandle
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver, VersionedMetadata
from magnetar.storage.ledger.placement_rules import AnyBookies, Placement, SpareBookies
from magnetar.storage.ledger.quorum_rules import check_sizes
from magnetar.storage.ledger.read_handle import ReadHandle
from magnetar.storage.ledger.recoverer import Recoverer
from magnetar.storage.ledger.recovery_rules import LastConfirmed
from magnetar.storage.ledger.replica_reader import ReplicaReader
from magnetar.storage.ledger.tailing import TailHandle
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

_NOTHING: Mapping[str, bytes] = MappingProxyType({})


class BookKeeper:
    """One client, shared by all ledgers of the process.

    `channel_of` maps a bookie id to its channel (LookupError when no address is known), `bookies` returns the bookies
    that take writes now, `next_ledger_id` draws ids that were never used before. All calls are on the loop's thread.
    After `close`, the calls that create, open or delete a ledger raise ClientClosed.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        channel_of: ChannelOf,
        *,
        bookies: Callable[[], Sequence[str]],
        next_ledger_id: Callable[[], Awaitable[int]],
        rng: Random,
        config: LedgerConfig | None = None,
        read_only_bookies: Callable[[], Collection[str]] = tuple,
        placement_of: Callable[[Mapping[str, bytes]], Placement] | None = None,
    ) -> None:
        """`metadata` holds the ledgers' records and the bookies' registrations. `placement_of` maps the custom metadata
        of a ledger to the `Placement` that chooses the ledger's bookies. Without it, any of `bookies` are taken."""
        self.metadata = metadata
        self._driver = LedgerMetadataDriver(metadata, next_ledger_id)
        self._channel_of = channel_of
        self._rng = rng
        self._config = config = config or LedgerConfig()
        self._bookies = bookies
        anywhere = AnyBookies(bookies, rng)
        self._placement_of = placement_of or (lambda _: anywhere)
        self._preference = BookiePreference(
            BookieHealth(
                errors_max=config.bookie_errors_max if config.bookie_health_check else 0,
                interval_sec=config.bookie_errors_interval_sec,
                quarantine_sec=config.bookie_quarantine_time_sec,
            ),
            asyncio.get_running_loop().time,
            writable=bookies,
            read_only=read_only_bookies,
        )
        self.appends = AppendsUnderWay()
        """The groups of entries of all ledgers that this client writes."""
        self._writers: set[WriteHandle] = set()
        self._lac_teller: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def writable_bookies(self) -> int:
        """The number of bookies that take writes now, as far as the client knows."""
        return len(self._bookies())

    async def create_ledger(
        self,
        *,
        ensemble_size: int = 1,
        write_quorum: int = 1,
        ack_quorum: int = 1,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] = _NOTHING,
    ) -> WriteHandle:
        """Creates a ledger and returns the handle that writes it. Raises IncorrectParameter, NotEnoughBookies,
        LedgerMetadataFault."""
        draft = self._draft(-1, (ensemble_size, write_quorum, ack_quorum), digest_type, password, custom_metadata)
        ledger = await self._driver.create(draft, ctoken=self._rng.getrandbits(63))
        return self._writer_of(ledger, digest_type, password)

    async def create_ledger_adv(
        self,
        ledger_id: int | None = None,
        *,
        ensemble_size: int = 1,
        write_quorum: int = 1,
        ack_quorum: int = 1,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: Mapping[str, bytes] = _NOTHING,
    ) -> WriteAdvHandle:
        """Creates a ledger whose writer chooses the entry ids and, with `ledger_id`, the ledger's id.

        Raises the errors of `create_ledger`, and LedgerExists when the id is taken.
        """
        sizes = (ensemble_size, write_quorum, ack_quorum)
        ctoken = self._rng.getrandbits(63)
        if ledger_id is None:
            draft = self._draft(-1, sizes, digest_type, password, custom_metadata)
            ledger = await self._driver.create(draft, ctoken)
        elif ledger_id < 0:
            raise IncorrectParameter(f"ledger id {ledger_id}")
        else:
            draft = self._draft(ledger_id, sizes, digest_type, password, custom_metadata)
            ledger = await self._driver.create_as(draft, ctoken)
        return WriteAdvHandle(self._writer_of(ledger, digest_type, password))

    def _draft(
        self,
        ledger_id: int,
        sizes: tuple[int, int, int],
        digest_type: DigestType,
        password: bytes,
        custom_metadata: Mapping[str, bytes],
    ) -> LedgerMetadata:
        self._check_open()
        ensemble_size, write_quorum, ack_quorum = sizes
        try:
            check_sizes(ensemble_size, write_quorum, ack_quorum)
        except ValueError as error:
            raise IncorrectParameter(str(error)) from error
        custom_metadata = dict(custom_metadata)  # the caller may change its own dictionary later
        placement = self._placement_of(custom_metadata)
        members = placement.choose(ensemble_size, write_quorum, self._preference.quarantined())
        return LedgerMetadata(
            ledger_id=ledger_id,
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            ensembles=((0, members),),
            digest_type=digest_type,
            password=password,
            custom_metadata=custom_metadata,
        )

    def _writer_of(self, ledger: VersionedMetadata, digest_type: DigestType, password: bytes) -> WriteHandle:
        handle = WriteHandle(
            StoredEnsembles(self._driver, ledger, self._spare_bookies(ledger.metadata)),
            EntryCodec(ledger.metadata.ledger_id, digest_type, password),
            master_key(password),
            channel_of=self._channel_of,
            config=self._config,
            preference=self._preference,
            appends=self.appends,
            on_end=self._writers.discard,
        )
        self._writers.add(handle)
        if self._config.explicit_lac_interval_sec and self._lac_teller is None:
            self._lac_teller = asyncio.create_task(self._tell_lacs())
        return handle

    def _spare_bookies(self, metadata: LedgerMetadata) -> SpareBookies:
        return SpareBookies(
            self._placement_of(metadata.custom_metadata), metadata.write_quorum, self._preference.quarantined
        )

    async def _tell_lacs(self) -> None:
        """In each interval, sends the explicit LAC of every writer whose LAC is newer than that in its last entry."""
        while True:
            await asyncio.sleep(self._config.explicit_lac_interval_sec)
            for handle in list(self._writers):
                try:
                    await handle.tell_lac()
                except LedgerError as error:
                    log.warning("ledger %d: its LAC was not told: %s", handle.ledger_id, error)
                except Exception:  # The task tells the LACs of all other ledgers too.
                    log.exception("ledger %d: its LAC was not told", handle.ledger_id)

    async def open_ledger(
        self,
        ledger_id: int,
        *,
        password: bytes = b"",
        recover: bool = True,
        digest_type: DigestType = DigestType.CRC32C,
    ) -> ReadHandle:
        """Opens a ledger for reading. With `recover`, an unclosed ledger is first fenced and closed, so that its writer
        cannot write any more. Without `recover` this is `open_ledger_no_recovery`. `digest_type` counts only for a
        record of BookKeeper's first versions, which names no digest type.

        Raises NoSuchLedger, UnauthorizedAccess (wrong password), LedgerMetadataFault, MetadataDamaged, and the errors
        of `Recoverer.run` or, without `recover`, those of the bookies.
        """
        if not recover:
            return await self.open_ledger_no_recovery(ledger_id, password=password, digest_type=digest_type)
        ledger, reader, codec = await self._look_up(ledger_id, password, digest_type)
        metadata = ledger.metadata
        if not metadata.is_closed:
            recoverer = Recoverer(
                ledger_id,
                master_key(password),
                driver=self._driver,
                reader=reader,
                channel_of=self._channel_of,
                replace_failed=self._spare_bookies(metadata),
                config=self._config,
                preference=self._preference,
            )
            metadata = (await recoverer.run(ledger)).metadata
        return ReadHandle(metadata, metadata.last_entry_id, metadata.length, reader, codec.payload_offset)

    async def open_ledger_no_recovery(
        self, ledger_id: int, *, password: bytes = b"", digest_type: DigestType = DigestType.CRC32C
    ) -> TailHandle:
        """Opens a ledger for reading and leaves its writer alone. The ledger is readable up to the LAC that the bookies
        know, and the handle can follow it. Raises NoSuchLedger, UnauthorizedAccess, LedgerMetadataFault, and the errors
        of the bookies."""
        ledger, reader, codec = await self._look_up(ledger_id, password, digest_type)
        metadata = ledger.metadata
        if metadata.is_closed:
            confirmed = LastConfirmed(metadata.last_entry_id, metadata.length)
        else:
            confirmed = await ask_last_entries(reader, metadata, flags=0)
        return TailHandle(metadata, confirmed, reader, codec.payload_offset, self._driver, self._config)

    async def _look_up(
        self, ledger_id: int, password: bytes, digest_type: DigestType
    ) -> tuple[VersionedMetadata, ReplicaReader, EntryCodec]:
        self._check_open()
        ledger = await self._driver.read(ledger_id)
        metadata = ledger.metadata
        if metadata.password is not None and metadata.password != password:
            raise UnauthorizedAccess(f"ledger {ledger_id}: the password is not the ledger's")
        codec = EntryCodec(ledger_id, metadata.digest_type or digest_type, password)
        key = master_key(password)
        return ledger, ReplicaReader(ledger_id, key, codec, self._channel_of, self._config, self._preference), codec

    async def delete_ledger(self, ledger_id: int) -> None:
        """Deletes the ledger's record; bookies reclaim the space later. If the ledger is gone already, that is success.

        Raises LedgerMetadataFault.
        """
        self._check_open()
        await self._driver.delete(ledger_id)

    async def close(self) -> None:
        """Ends all writers without closing their ledgers. Pending appends fail with ClientClosed. Idempotent."""
        self._closed = True
        if self._lac_teller is not None:
            self._lac_teller.cancel()
        await asyncio.gather(*(handle.abandon() for handle in list(self._writers)))

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the ledger client is closed")
