"""Elects one leader among all processes that share a metadata store, by one ephemeral record.

Source: LeaderElectionImpl. The value of the record identifies the leader; Java's brokers write {"brokerId": …,
"serviceUrl": …} to /loadbalance/leader.
"""

import asyncio
import logging
from collections.abc import Callable

from magnetar.metadata.coordination.election_rules import (
    RETRY_SECONDS,
    ElectionState,
    Outcome,
    after_session_event,
    must_elect,
    record_must_elect,
)
from magnetar.metadata.coordination.lock_errors import LockBusyError
from magnetar.metadata.coordination.lock_rules import SameValue, may_delete
from magnetar.metadata.coordination.own_record import delete_found, same_bytes, take_record
from magnetar.metadata.errors import MetadataError, StoreClosedError
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent, SessionEvent

log = logging.getLogger(__name__)

OnChange = Callable[[bool], None]

CLOSE_SECONDS_MAX = 5.0
"""How long `close` waits for the store."""


class LeaderElection:
    """One candidate, which takes part in the election from `start` on. All calls are made on the loop's thread."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        value: bytes,
        on_change: OnChange = lambda _: None,
        *,
        is_same: SameValue = same_bytes,
    ) -> None:
        """`on_change(is_leader)` is called on the loop whenever this process becomes the leader or ceases to be the
        leader; the callback must not raise or block. `is_same` returns whether a value that another session wrote names
        this very candidate, which means that the candidate was restarted."""
        self._store = store
        self._path = path
        self._value = value
        self._on_change = on_change
        self._is_same = is_same
        self._known = Outcome()
        self._told = False
        """The argument of the last call of `on_change`."""
        self._due = asyncio.Event()
        """Set when the record has to be read."""
        self._settled = asyncio.Event()
        """Set while no election is under way or due."""
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._cancels: list[CancelWatch] = []

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader, as far as it knows now."""
        return self._known.state is ElectionState.LEADING

    async def start(self) -> None:
        """Takes part in the election, and returns when the first election is over. Raises MetadataError when the store
        fails during the first election; elections are nevertheless tried again until `close`."""
        assert self._task is None, "the election has been started"
        self._cancels = [
            self._store.watch(self._path, self._heard),
            self._store.on_session(self._session_changed),
        ]
        try:
            await self._elect()
        except MetadataError:
            self._due.set()
            raise
        finally:
            if not self._is_closed:
                self._task = asyncio.get_running_loop().create_task(self._follow())

    async def leader(self) -> bytes | None:
        """Returns the leader's value, or None when there is no leader. Waits for the end of an election that is under
        way, and raises StoreClosedError after `close`. While the store cannot be reached, returns the value of the last
        leader known."""
        if self._store.is_connected and not self._is_closed:
            await self._settled.wait()
        if self._is_closed:
            raise StoreClosedError(self._path, "this process takes no longer part in the election")
        return self._known.leader

    async def close(self) -> None:
        """Stops taking part in the election. If this process is the leader, deletes the record; if the store does not
        answer in time, the record ends with the session. A second call has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        self._settled.set()
        for cancel in self._cancels:
            cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._set(Outcome())
        if not self._store.is_connected:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                found = await self._store.get(self._path)
                if found is not None and may_delete(found, self._store.session_id):
                    await delete_found(self._store, self._path, found)
        except (MetadataError, TimeoutError) as error:
            log.warning("the leader's record %s is left to the end of the session: %r", self._path, error)

    def _heard(self, event: RecordEvent) -> None:
        if record_must_elect(event.type):
            self._elect_soon()

    def _session_changed(self, event: SessionEvent) -> None:
        self._set(after_session_event(self._known, event))
        if must_elect(event):
            self._elect_soon()

    def _elect_soon(self) -> None:
        self._due.set()
        self._settled.clear()

    async def _follow(self) -> None:
        while True:
            await self._due.wait()
            try:
                await self._elect()
            except StoreClosedError:
                self._settled.set()
                return
            except MetadataError as error:
                log.warning("the election at %s broke off, again in %g s: %s", self._path, RETRY_SECONDS, error)
                self._due.clear()
                self._settled.set()
                try:
                    async with asyncio.timeout(RETRY_SECONDS):
                        await self._due.wait()
                except TimeoutError:
                    self._elect_soon()

    async def _elect(self) -> None:
        """Reads or makes the record, and repeats this until no change is heard meanwhile. Raises MetadataError when the
        store fails."""
        self._due.set()
        while self._due.is_set():
            self._due.clear()
            session_id = self._store.session_id
            result = await self._read_or_make()
            if session_id != self._store.session_id:
                self._due.set()
            else:
                self._set(result)
        self._settled.set()

    async def _read_or_make(self) -> Outcome:
        try:
            await take_record(self._store, self._path, self._value, self._is_same)
        except LockBusyError as error:
            return Outcome() if error.holder is None else Outcome(ElectionState.FOLLOWING, error.holder)
        return Outcome(ElectionState.LEADING, self._value)

    def _set(self, known: Outcome) -> None:
        if known != self._known:
            log.info("%s: %s, the leader is %r", self._path, known.state.value, known.leader)
        self._known = known
        if self.is_leader != self._told:
            self._told = self.is_leader
            try:
                self._on_change(self._told)
            except Exception:
                log.exception("%s: a callback failed on the outcome of an election", self._path)
