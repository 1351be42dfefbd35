"""The shell that reads entries from bookies: one replica after the other, each with a deadline, digests checked.

Which replica comes next, and which error counts, is decided in `read`. Everything returned was verified: ledger id,
entry id and digest. A bookie that failed is asked last from then on.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from pulsar_proto.bookie_wire import LAST_ENTRY, BookieError
from pulsar_proto.entry_digest import DigestError, EntryCodec, entry_ids, entry_lac, entry_length
from pulsar_proto.ledger_record import LedgerMetadata
from storage.ledger.channels import ChannelOf, find_channel
from storage.ledger.config import LedgerConfig
from storage.ledger.errors import (
    BookieHandleNotAvailable,
    BookieTimeout,
    DigestMismatch,
    LedgerError,
    NoSuchEntry,
    error_class,
)
from storage.ledger.fragments import Fragment, fragment_of
from storage.ledger.read import demotes, replica_order, worse

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LastEntry(NamedTuple):
    """What the header of a bookie's last entry says."""

    entry_id: int
    lac: int
    length: int


class EntryReader:
    """Reads of one ledger."""

    def __init__(
        self, ledger_id: int, master_key: bytes, codec: EntryCodec, channel_of: ChannelOf, config: LedgerConfig
    ) -> None:
        self._ledger_id = ledger_id
        self._master_key = master_key
        self._codec = codec
        self._channel_of = channel_of
        self._config = config
        self._demoted: set[str] = set()

    @property
    def demoted(self) -> frozenset[str]:
        """Bookies that failed a read since they last answered one."""
        return frozenset(self._demoted)

    async def read(self, metadata: LedgerMetadata, first: int, last: int, max_bytes: int) -> list[bytes]:
        """Stored entries from `first` on: at least one, at most to `last`, up to `max_bytes` or an ensemble change.

        The caller guarantees that they are confirmed. Raises LedgerError.
        """
        fragment = fragment_of(metadata, first)
        if fragment.last is not None:
            last = min(last, fragment.last)
        if metadata.ensemble_size == metadata.write_quorum:
            return await self._read_run(metadata, fragment, first, last - first + 1, max_bytes)
        return await self._read_striped(metadata, fragment, first, last, max_bytes)

    async def entry_of(self, bookie: str, entry_id: int, flags: int = 0) -> bytes:
        """One entry from one bookie; the master key goes along when a flag is set. Raises LedgerError."""
        key = self._master_key if flags else b""
        channel = find_channel(self._channel_of, bookie)
        entry = await self._ask(bookie, channel.read_entry(self._ledger_id, entry_id, flags, key))
        self._verify(bookie, entry, entry_id)
        return entry

    async def last_entry_of(self, bookie: str, flags: int = 0) -> LastEntry:
        """The header of the bookie's last entry. Raises NoSuchEntry, NoSuchLedgerOnBookie, other LedgerErrors."""
        key = self._master_key if flags else b""
        channel = find_channel(self._channel_of, bookie)
        entry = await self._ask(bookie, channel.read_entry(self._ledger_id, LAST_ENTRY, flags, key))
        entry_id = entry_ids(entry)[1] if len(entry) >= self._codec.payload_offset else LAST_ENTRY
        self._verify(bookie, entry, entry_id)
        return LastEntry(entry_id, entry_lac(entry), entry_length(entry))

    async def _read_run(
        self, metadata: LedgerMetadata, fragment: Fragment, first: int, count: int, max_bytes: int
    ) -> list[bytes]:
        """Every bookie holds every entry: one request brings many, and the reader stays with one bookie."""
        failure: LedgerError | None = None
        sticky = self._ledger_id % metadata.ensemble_size
        for index in replica_order(
            first, fragment.members, metadata.write_quorum, sticky=sticky, demoted=self._demoted
        ):
            bookie = fragment.members[index]
            channel = find_channel(self._channel_of, bookie)
            try:
                entries = await self._ask(bookie, channel.read_entries(self._ledger_id, first, count, max_bytes))
                return self._valid_prefix(bookie, first, entries[:count])
            except LedgerError as error:
                failure = worse(failure, error)
        assert failure is not None
        raise failure

    async def _read_striped(
        self, metadata: LedgerMetadata, fragment: Fragment, first: int, last: int, max_bytes: int
    ) -> list[bytes]:
        """Neighbouring entries are on different bookies: several single reads at once, in order up to a failure."""
        last = min(last, first + self._config.striped_reads_max - 1)
        results = await asyncio.gather(
            *(self._read_entry(metadata, fragment, entry_id) for entry_id in range(first, last + 1)),
            return_exceptions=True,
        )
        entries: list[bytes] = []
        size = 0
        for result in results:
            if isinstance(result, BaseException):
                if not entries or not isinstance(result, LedgerError):
                    raise result
                break
            size += len(result)
            if entries and size > max_bytes:
                break
            entries.append(result)
        return entries

    async def _read_entry(self, metadata: LedgerMetadata, fragment: Fragment, entry_id: int) -> bytes:
        failure: LedgerError | None = None
        for index in replica_order(entry_id, fragment.members, metadata.write_quorum, demoted=self._demoted):
            try:
                return await self.entry_of(fragment.members[index], entry_id)
            except LedgerError as error:
                failure = worse(failure, error)
        assert failure is not None
        raise failure

    async def _ask(self, bookie: str, answer: Awaitable[T]) -> T:
        """One request with its deadline; every failure becomes a LedgerError that names the bookie."""
        failure: LedgerError
        try:
            async with asyncio.timeout(self._config.read_entry_timeout_sec):
                result = await answer
        except BookieError as error:
            failure = error_class(int(error.rc), reading=True)(f"ledger {self._ledger_id}, bookie {bookie}: {error}")
        except TimeoutError:
            failure = BookieTimeout(f"ledger {self._ledger_id}, bookie {bookie}: no answer in time")
        except OSError as error:
            failure = BookieHandleNotAvailable(f"ledger {self._ledger_id}, bookie {bookie}: {error}")
        else:
            self._demoted.discard(bookie)
            return result
        self._note(bookie, failure)
        raise failure

    def _note(self, bookie: str, failure: LedgerError) -> None:
        if demotes(failure) and bookie not in self._demoted:
            self._demoted.add(bookie)
            logger.warning("%s: %s; asked last from now on", type(failure).__name__, failure)

    def _verify(self, bookie: str, entry: bytes, entry_id: int) -> None:
        try:
            self._codec.verify(entry, entry_id)
        except DigestError as error:
            failure = DigestMismatch(f"ledger {self._ledger_id}, from bookie {bookie}: {error}")
            self._note(bookie, failure)
            raise failure from error

    def _valid_prefix(self, bookie: str, first: int, entries: list[bytes]) -> list[bytes]:
        """The entries before the first one that is damaged. Raises DigestMismatch when that is the very first."""
        if not entries:
            raise NoSuchEntry(f"ledger {self._ledger_id}, entry {first} from bookie {bookie}: empty answer")
        try:
            self._codec.verify_run(first, entries)
        except DigestError as error:
            failure = DigestMismatch(f"ledger {self._ledger_id}, from bookie {bookie}: {error}")
            self._note(bookie, failure)
            if error.entry_id == first:
                raise failure from error
            return entries[: error.entry_id - first]
        return entries
