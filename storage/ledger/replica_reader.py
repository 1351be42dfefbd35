"""Reads entries from bookies: asks one replica after the other, each with a deadline, and checks the digests.

`read_rules` decides which replica is next and which of several errors counts; `speculative_read` asks the next replica
early when a replica is silent. Every returned entry was verified: ledger id, entry id and digest. A bookie that failed
is asked last until it answers again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeVar

from magnetar.storage.ledger.bookie_channel import LacChannel
from magnetar.storage.ledger.bookie_preference import NO_PREFERENCE, BookiePreference
from magnetar.storage.ledger.channel_lookup import ChannelOf, find_channel
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.fragment_rules import Fragment, fragment_of
from magnetar.storage.ledger.ledger_errors import (
    BookieHandleNotAvailable,
    BookieOverloaded,
    BookieTimeout,
    DigestMismatch,
    LedgerError,
    NoSuchEntry,
    error_class,
)
from magnetar.storage.ledger.overload_rules import is_overload, retry_seconds
from magnetar.storage.ledger.read_rules import demotes, replica_order
from magnetar.storage.ledger.recovery_rules import LastConfirmed
from magnetar.storage.ledger.speculative_read import first_good
from pulsar_proto.records.entry_digest import DigestError, EntryCodec, entry_ids, entry_lac, entry_length
from pulsar_proto.records.ledger_record import LedgerMetadata
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, BookieError, EntryDamaged

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LastEntry(NamedTuple):
    """The values in the header of a bookie's last entry."""

    entry_id: int
    lac: int
    length: int


class ReplicaReader:
    """Reads the entries of one ledger from its bookies."""

    def __init__(
        self,
        ledger_id: int,
        master_key: bytes,
        codec: EntryCodec,
        channel_of: ChannelOf,
        config: LedgerConfig,
        preference: BookiePreference = NO_PREFERENCE,
    ) -> None:
        self._preference = preference
        self._ledger_id = ledger_id
        self._master_key = master_key
        self._codec = codec
        self._channel_of = channel_of
        self._config = config
        self._demoted: set[str] = set()

    @property
    def demoted(self) -> frozenset[str]:
        """The bookies that failed a read and have not answered another one since."""
        return frozenset(self._demoted)

    async def read(self, metadata: LedgerMetadata, first: int, last: int, max_bytes: int) -> list[bytes]:
        """Returns at least one stored entry from `first` on, and no entry beyond `last`. The result ends earlier at
        `max_bytes` or at an ensemble change.

        The caller guarantees that all entries up to `last` are confirmed. Raises LedgerError.
        """
        fragment = fragment_of(metadata, first)
        if fragment.last is not None:
            last = min(last, fragment.last)
        if metadata.ensemble_size == metadata.write_quorum:
            return await self._read_run(metadata, fragment, first, last - first + 1, max_bytes)
        return await self._read_striped(metadata, fragment, first, last, max_bytes)

    async def entry_of(self, bookie: str, entry_id: int, flags: int = 0, *, patient: bool = True) -> bytes:
        """Reads one entry from one bookie. The master key is sent when a flag is set. For `patient` see `_ask`. Raises
        LedgerError."""
        key = self._master_key if flags else b""
        channel = find_channel(self._channel_of, bookie)
        entry = await self._ask(
            bookie, lambda: channel.read_entry(self._ledger_id, entry_id, flags, key), patient=patient
        )
        self._verify(bookie, entry, entry_id)
        return entry

    async def last_entry_of(self, bookie: str, flags: int = 0) -> LastEntry:
        """Returns the values in the header of the bookie's last entry. Raises NoSuchEntry, NoSuchLedgerOnBookie, other
        LedgerErrors."""
        key = self._master_key if flags else b""
        channel = find_channel(self._channel_of, bookie)
        entry = await self._ask(bookie, lambda: channel.read_entry(self._ledger_id, LAST_ENTRY, flags, key))
        entry_id = entry_ids(entry)[1] if len(entry) >= self._codec.payload_offset else LAST_ENTRY
        self._verify(bookie, entry, entry_id)
        return LastEntry(entry_id, entry_lac(entry), entry_length(entry))

    async def last_confirmed_of(self, bookie: str) -> LastConfirmed:
        """Returns the LAC that the bookie knows: by READ_LAC if the channel has it, else from the last entry. Raises
        the errors of `last_entry_of`."""
        channel = find_channel(self._channel_of, bookie)
        if not isinstance(channel, LacChannel):
            last = await self.last_entry_of(bookie)
            return LastConfirmed(last.lac, last.length)
        answer = await self._ask(bookie, lambda: channel.read_lac(self._ledger_id))
        lac, length = -1, 0
        if answer.last_entry is not None and len(answer.last_entry) >= self._codec.payload_offset:
            self._verify(bookie, answer.last_entry, entry_ids(answer.last_entry)[1])
            lac, length = entry_lac(answer.last_entry), entry_length(answer.last_entry)
        if answer.explicit:
            try:
                lac = max(lac, self._codec.verify_lac(answer.explicit))
            except DigestError as error:
                raise DigestMismatch(f"ledger {self._ledger_id}, from bookie {bookie}: {error}") from error
        return LastConfirmed(lac, length)

    async def poll(self, bookie: str, previous_lac: int, timeout_sec: float) -> int | None:
        """Returns the bookie's LAC as soon as the LAC exceeds `previous_lac`, or after `timeout_sec`. Returns None at
        once when the channel has no long poll. Raises LedgerError."""
        channel = find_channel(self._channel_of, bookie)
        if not isinstance(channel, LacChannel):
            return None
        timeout_ms = int(timeout_sec * 1000)
        polled = await self._ask(
            bookie, lambda: channel.long_poll(self._ledger_id, previous_lac, timeout_ms), more_seconds=timeout_sec
        )
        return polled.last_add_confirmed

    async def _read_run(
        self, metadata: LedgerMetadata, fragment: Fragment, first: int, count: int, max_bytes: int
    ) -> list[bytes]:
        """Reads from a ledger where every bookie holds every entry: one request brings many entries, and the reader
        stays with one bookie."""
        sticky = self._ledger_id % metadata.ensemble_size
        order = replica_order(
            first,
            fragment.members,
            metadata.write_quorum,
            sticky=sticky,
            demoted=self._demoted,
            standing=self._preference.standing,
        )

        async def ask(bookie: str, patient: bool) -> list[bytes]:
            channel = find_channel(self._channel_of, bookie)
            entries = await self._ask(
                bookie, lambda: channel.read_entries(self._ledger_id, first, count, max_bytes), patient=patient
            )
            return self._valid_prefix(bookie, first, entries[:count])

        questions = [partial(ask, fragment.members[index], index == order[-1]) for index in order]
        return await first_good(questions, self._config.speculative_read_timeout_sec)

    async def _read_striped(
        self, metadata: LedgerMetadata, fragment: Fragment, first: int, last: int, max_bytes: int
    ) -> list[bytes]:
        """Reads from a striped ledger, where neighbouring entries lie on different bookies: several single reads at
        once. Returns the entries before the first one that failed."""
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
        order = replica_order(
            entry_id,
            fragment.members,
            metadata.write_quorum,
            demoted=self._demoted,
            standing=self._preference.standing,
        )
        questions = [
            partial(self.entry_of, fragment.members[index], entry_id, patient=index == order[-1]) for index in order
        ]
        return await first_good(questions, self._config.speculative_read_timeout_sec)

    async def _ask(
        self, bookie: str, ask: Callable[[], Awaitable[T]], more_seconds: float = 0.0, *, patient: bool = True
    ) -> T:
        """Sends one request with its deadline. Every failure becomes a LedgerError that names the bookie.

        A `patient` request that an overloaded bookie refuses is sent again until the deadline. Any other refused
        request fails at once, so that the next replica is asked.
        """
        failure: LedgerError
        where = f"ledger {self._ledger_id}, bookie {bookie}"
        refusals = 0
        try:
            async with asyncio.timeout(self._config.read_entry_timeout_sec + more_seconds):
                while True:
                    try:
                        result = await ask()
                        break
                    except BookieError as error:
                        if not (patient and is_overload(int(error.rc))):
                            raise
                        refusals += 1
                    await asyncio.sleep(retry_seconds(refusals))
        except EntryDamaged as error:
            # One damaged entry says nothing about the bookie's other entries, so it does not count against the bookie.
            raise DigestMismatch(f"{where}: {error}") from error
        except BookieError as error:
            failure = error_class(int(error.rc), reading=True)(f"{where}: {error}")
        except TimeoutError:
            if refusals:
                failure = BookieOverloaded(f"{where}: overloaded, {refusals} requests were refused")
            else:
                failure = BookieTimeout(f"{where}: no answer in time")
        except OSError as error:
            failure = BookieHandleNotAvailable(f"{where}: {error}")
        else:
            self._demoted.discard(bookie)
            return result
        self._note(bookie, failure)
        raise failure

    def _note(self, bookie: str, failure: LedgerError) -> None:
        """Remembers a failure after which the bookie is asked last."""
        if not demotes(failure):
            return
        level = logging.WARNING if self._preference.failed(bookie) else logging.DEBUG
        if bookie not in self._demoted:
            self._demoted.add(bookie)
            logger.log(level, "%s: %s; asked last from now on", type(failure).__name__, failure)

    def _verify(self, bookie: str, entry: bytes, entry_id: int) -> None:
        try:
            self._codec.verify(entry, entry_id)
        except DigestError as error:
            failure = DigestMismatch(f"ledger {self._ledger_id}, from bookie {bookie}: {error}")
            self._note(bookie, failure)
            raise failure from error

    def _valid_prefix(self, bookie: str, first: int, entries: list[bytes]) -> list[bytes]:
        """Returns the entries before the first damaged one. Raises DigestMismatch when the very first one is
        damaged."""
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
