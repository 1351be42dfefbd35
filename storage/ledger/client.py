"""The ledger client: creates, opens, recovers and deletes ledgers. See `handle` for what it hands out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType

from metadata.store import MetadataStore
from pulsar_proto.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.ledger_record import LedgerMetadata
from storage.ledger.channels import ChannelOf
from storage.ledger.config import LedgerConfig
from storage.ledger.errors import ClientClosed, IncorrectParameter, UnauthorizedAccess
from storage.ledger.handle import ReadHandle, StoredEnsembles, WriteHandle
from storage.ledger.metadata_driver import LedgerMetadataDriver
from storage.ledger.placement import SpareBookies, choose_ensemble
from storage.ledger.quorum import check_sizes
from storage.ledger.reader import EntryReader
from storage.ledger.recoverer import Recoverer, ask_last_entries

_NOTHING: Mapping[str, bytes] = MappingProxyType({})


class BookKeeper:
    """One client: shared by all ledgers of the process.

    `channel_of` maps a bookie id to its channel (LookupError: no address known), `bookies` names those that take writes
    now, `next_ledger_id` draws ids never used before. All calls on the loop's thread.
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
    ) -> None:
        self._driver = LedgerMetadataDriver(metadata, next_ledger_id)
        self._channel_of = channel_of
        self._bookies = bookies
        self._rng = rng
        self._config = config or LedgerConfig()
        self._writers: set[WriteHandle] = set()
        self._closed = False

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
        """Raises IncorrectParameter, NotEnoughBookies, MetadataFault, LedgerIdOverflow."""
        self._check_open()
        try:
            check_sizes(ensemble_size, write_quorum, ack_quorum)
        except ValueError as error:
            raise IncorrectParameter(str(error)) from error
        draft = LedgerMetadata(
            ledger_id=-1,
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            ensembles=((0, choose_ensemble(self._bookies(), ensemble_size, self._rng)),),
            digest_type=digest_type,
            password=password,
            custom_metadata=custom_metadata,
        )
        ledger = await self._driver.create(draft, ctoken=self._rng.getrandbits(63))
        ledger_id = ledger.metadata.ledger_id
        handle = WriteHandle(
            StoredEnsembles(self._driver, ledger, SpareBookies(self._bookies, self._rng)),
            EntryCodec(ledger_id, digest_type, password),
            master_key(password),
            channel_of=self._channel_of,
            config=self._config,
            on_end=self._writers.discard,
        )
        self._writers.add(handle)
        return handle

    async def open_ledger(
        self,
        ledger_id: int,
        *,
        password: bytes = b"",
        recover: bool = True,
        digest_type: DigestType = DigestType.CRC32C,
    ) -> ReadHandle:
        """Opens for reading. With `recover` a ledger that nobody closed is fenced and closed first: its writer is over.
        Without, it is readable up to the LAC that the bookies know now. `digest_type` counts only for a record of
        BookKeeper's first versions, which names none.

        Raises NoSuchLedger, UnauthorizedAccess (wrong password), LedgerRecoveryFailed, MetadataFault, and without
        `recover` the bookies' errors.
        """
        self._check_open()
        ledger = await self._driver.read(ledger_id)
        metadata = ledger.metadata
        if metadata.password is not None and metadata.password != password:
            raise UnauthorizedAccess(f"ledger {ledger_id}: the password is not the ledger's")
        codec = EntryCodec(ledger_id, metadata.digest_type or digest_type, password)
        key = master_key(password)
        reader = EntryReader(ledger_id, key, codec, self._channel_of, self._config)
        last, length = metadata.last_entry_id, metadata.length
        if not metadata.is_closed:
            if recover:
                recoverer = Recoverer(
                    ledger_id,
                    key,
                    driver=self._driver,
                    reader=reader,
                    channel_of=self._channel_of,
                    replace_failed=SpareBookies(self._bookies, self._rng),
                    config=self._config,
                )
                metadata = (await recoverer.run(ledger)).metadata
                last, length = metadata.last_entry_id, metadata.length
            else:
                last, length = await ask_last_entries(reader, metadata, flags=0)
        return ReadHandle(metadata, last, length, reader, codec.payload_offset)

    async def delete_ledger(self, ledger_id: int) -> None:
        """Deletes the ledger's record; bookies reclaim the space later. A ledger that is gone is success.

        Raises MetadataFault.
        """
        self._check_open()
        await self._driver.delete(ledger_id)

    async def close(self) -> None:
        """Ends all writers without closing their ledgers: pending appends fail with ClientClosed. Idempotent."""
        self._closed = True
        await asyncio.gather(*(handle.abandon() for handle in list(self._writers)))

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the ledger client is closed")
