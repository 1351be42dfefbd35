"""Takes part in the election of the cluster's auditor, and is the auditor while it leads; rules are in `election`."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.storage.repair.change_signal import Changes
from magnetar.storage.repair.election_rules import Standing, leader_of, place_in_line
from magnetar.storage.repair.undo import created_or_undone
from pulsar_proto.records import underreplication_record as records

log = logging.getLogger(__name__)


async def current_auditor(store: MetadataStore) -> str | None:
    """The bookie id of the auditor, None when nobody is. Raises MetadataError, MalformedRecord."""
    try:
        leader = leader_of(await store.children(records.ELECTION))
    except NoNodeError:
        return None
    record = await store.get(f"{records.ELECTION}/{leader}") if leader is not None else None
    return None if record is None else records.voter(record.value)


class AuditorElection:
    """`run` votes until it is cancelled and runs `lead()` while its vote is the first; `lead` is cancelled when the
    vote goes away. Raises MetadataError, and what `lead` raises."""

    def __init__(self, store: MetadataStore, bookie_id: str, lead: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._lead = lead
        self._vote: str | None = None
        self._session_is_over = False

    def session_ended(self) -> None:
        """The vote went away with the session."""
        self._session_is_over = True

    async def run(self) -> None:
        try:
            while True:
                await self._stand()
        finally:
            if self._vote is not None and not self._session_is_over:
                with contextlib.suppress(Exception):
                    await self._store.delete(f"{records.ELECTION}/{self._vote}")

    async def _stand(self) -> None:
        """From one look at the line to the next."""
        if self._vote is None:
            create = self._store.create(
                records.VOTE_PREFIX,
                records.vote_value(self._bookie_id),
                ephemeral=True,
                sequential=True,
                make_parents=True,
            )
            created = await created_or_undone(create, self._store.delete)
            self._vote = created.path.rpartition("/")[2]
        place = place_in_line(await self._store.children(records.ELECTION), self._vote)
        if place.standing is Standing.GONE:
            log.warning("the vote %s of %s is gone, voting again", self._vote, self._bookie_id)
            self._vote = None
            return
        changes = Changes()
        path = f"{records.ELECTION}/{place.watch}"
        cancel = self._store.watch(path, changes.note)
        try:
            if await self._store.exists(path) is None:
                return
            if place.standing is Standing.WAITING:
                await changes.after(0)
            else:
                await self._be_auditor(path, changes)
        finally:
            cancel()

    async def _be_auditor(self, path: str, changes: Changes) -> None:
        await self._store.put(records.ELECTION, records.vote_value(self._bookie_id))
        log.info("bookie %s is the auditor now (%s)", self._bookie_id, self._vote)
        leading = asyncio.ensure_future(self._lead())
        try:
            while not leading.done() and await self._store.exists(path) is not None:
                changed = asyncio.ensure_future(changes.after(changes.count))
                try:
                    await asyncio.wait((leading, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
            if leading.done():
                await leading
        finally:
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
            log.info("bookie %s is not the auditor any more", self._bookie_id)
