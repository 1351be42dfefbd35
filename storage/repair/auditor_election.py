"""Votes in the election of the cluster's auditor, and runs the auditor while this process's vote leads
(`election_rules`)."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.storage.repair.change_signal import ChangeSignal
from magnetar.storage.repair.election_rules import VoteStanding, leader_of, place_in_line
from magnetar.storage.repair.ephemeral_creation import created_or_undone
from pulsar_proto.records import underreplication_record as records

log = logging.getLogger(__name__)


async def current_auditor(store: MetadataStore) -> str | None:
    """Returns the bookie id of the cluster's auditor, or None when there is none. Raises MetadataError,
    MalformedRecord."""
    try:
        leader = leader_of(await store.children(records.ELECTION))
    except NoNodeError:
        return None
    record = await store.get(f"{records.ELECTION}/{leader}") if leader is not None else None
    return None if record is None else records.voter(record.value)


class AuditorElection:
    """One voter. `lead()` does the auditor's work: it is started when the vote becomes the first in line, and cancelled
    when the vote's record disappears."""

    def __init__(self, store: MetadataStore, bookie_id: str, lead: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._lead = lead
        self._vote: str | None = None
        self._session_is_over = False

    def session_ended(self) -> None:
        """Notes that the ZooKeeper session has expired: the vote went with the session and need not be deleted."""
        self._session_is_over = True

    async def run(self) -> None:
        """Takes part in the election until this call is cancelled, then deletes the vote. Raises MetadataError and the
        errors of `lead`."""
        try:
            while True:
                await self._stand()
        finally:
            if self._vote is not None and not self._session_is_over:
                with contextlib.suppress(Exception):
                    await self._store.delete(f"{records.ELECTION}/{self._vote}")

    async def _stand(self) -> None:
        """Votes if this process has no vote yet, and finds the vote's place in line. Depending on the place, leads or
        waits until the place may have changed."""
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
        if place.standing is VoteStanding.GONE:
            log.warning("the vote %s of %s is gone, voting again", self._vote, self._bookie_id)
            self._vote = None
            return
        changes = ChangeSignal()
        path = f"{records.ELECTION}/{place.watch}"
        cancel = self._store.watch(path, changes.note)
        try:
            if await self._store.exists(path) is None:
                return
            if place.standing is VoteStanding.WAITING:
                await changes.after(0)
            else:
                await self._be_auditor(path, changes)
        finally:
            cancel()

    async def _be_auditor(self, path: str, changes: ChangeSignal) -> None:
        """Runs `lead` until it ends or the vote at `path` is gone. `changes` is the signal of a watch on that path."""
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
