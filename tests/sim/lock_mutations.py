"""Bugs of locks and elections, planted on purpose. With each of them some history breaks a claim."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any
from unittest.mock import patch

from magnetar.metadata.coordination import leader_election, lock_rules, own_record, resource_lock
from magnetar.metadata.coordination.leader_election import LeaderElection
from magnetar.metadata.coordination.lock_rules import SameValue, Step
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.metadata.errors import MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import EventType, MetadataStore, Record, SessionEvent, Stat

Mutation = Callable[[], AbstractContextManager[Any]]

_next_step = lock_rules.next_step


def _a_stale_lock_is_deleted_whatever_its_version() -> AbstractContextManager[Any]:
    async def delete(store: MetadataStore, path: str, found: Record) -> bool:
        with suppress(NoNodeError):
            await store.delete(path)
        return True

    return patch.object(own_record, "delete_found", delete)


def _a_lock_is_kept_after_the_loss_of_its_session() -> AbstractContextManager[Any]:
    """Neither the new session nor the deletion, of which its watch hears, leads to a check."""
    doubt = ResourceLock._doubt

    def doubt_in_the_old_session(self: ResourceLock) -> None:
        first = self.__dict__.setdefault("first_session", self._store.session_id)
        if self._store.session_id == first:
            doubt(self)

    return patch.object(ResourceLock, "_doubt", doubt_in_the_old_session)


def _a_stale_lock_of_an_own_session_is_kept() -> AbstractContextManager[Any]:
    def step(found: Record | None, wanted: bytes, session_id: int, is_same: SameValue) -> Step:
        if found is not None and found.stat.ephemeral and found.value == wanted:
            return Step.KEEP
        return _next_step(found, wanted, session_id, is_same)

    return patch.object(own_record, "next_step", step)


def _the_deletion_of_a_lock_is_ignored() -> AbstractContextManager[Any]:
    return patch.object(resource_lock, "casts_doubt", lambda event: event is EventType.CREATED)


def _a_lock_that_others_wrote_is_left_so() -> AbstractContextManager[Any]:
    return patch.object(resource_lock, "casts_doubt", lambda event: event is EventType.DELETED)


def _a_record_that_exists_counts_as_ones_own() -> AbstractContextManager[Any]:
    async def create(store: MetadataStore, path: str, value: bytes) -> Stat | None:
        try:
            return (await store.create(path, value, ephemeral=True, make_parents=True)).stat
        except NodeExistsError:
            stat = await store.exists(path)
            return None if stat is None else stat._replace(owner=store.session_id)

    return patch.object(resource_lock, "create_own", create)


def _a_lock_is_updated_whatever_its_version() -> AbstractContextManager[Any]:
    async def update(self: ResourceLock, value: bytes) -> None:
        async with self._turn:
            self._require_held()
            self._took(value, await self._store.put(self.path, value))

    return patch.object(ResourceLock, "update", update)


def _a_failed_check_is_not_repeated() -> AbstractContextManager[Any]:
    async def pause(self: ResourceLock, error: MetadataError) -> None:
        return

    return patch.object(ResourceLock, "_pause", pause)


def _a_release_deletes_what_it_finds() -> AbstractContextManager[Any]:
    return patch.object(resource_lock, "may_delete", lambda found, session_id: found is not None)


def _an_unfinished_release_is_forgotten() -> AbstractContextManager[Any]:
    original = ResourceLock._doubt

    def doubt(self: ResourceLock) -> None:
        if self.state is not lock_rules.LockState.RELEASING:
            original(self)

    return patch.object(ResourceLock, "_doubt", doubt)


def _a_loss_is_not_told() -> AbstractContextManager[Any]:
    original = ResourceLock._end

    def end(self: ResourceLock, state: lock_rules.LockState) -> None:
        self._lost_callbacks = {}
        original(self, state)

    return patch.object(ResourceLock, "_end", end)


def _a_leader_stays_leader_in_a_new_session() -> AbstractContextManager[Any]:
    """Neither the new session nor the deletion, of which its watch hears, leads to an election."""
    elect_soon = LeaderElection._elect_soon

    def elect_soon_in_the_old_session(self: LeaderElection) -> None:
        first = self.__dict__.setdefault("first_session", self._store.session_id)
        if self._store.session_id == first:
            elect_soon(self)

    stack = ExitStack()
    stack.enter_context(patch.object(LeaderElection, "_elect_soon", elect_soon_in_the_old_session))
    stack.enter_context(patch.object(leader_election, "after_session_event", lambda known, event: known))
    return stack


def _nobody_elects_when_the_leader_is_gone() -> AbstractContextManager[Any]:
    return patch.object(leader_election, "record_must_elect", lambda event: event is EventType.CHANGED)


def _a_reconnected_follower_does_not_look_who_leads() -> AbstractContextManager[Any]:
    def must_elect(event: SessionEvent) -> bool:
        return event is SessionEvent.NEW_SESSION

    def record_must_elect(event: EventType) -> bool:
        return event is EventType.DELETED

    return patch.multiple(leader_election, must_elect=must_elect, record_must_elect=record_must_elect)


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__.removeprefix("_"): mutation
    for mutation in (
        _a_stale_lock_is_deleted_whatever_its_version,
        _a_lock_is_kept_after_the_loss_of_its_session,
        _a_stale_lock_of_an_own_session_is_kept,
        _the_deletion_of_a_lock_is_ignored,
        _a_lock_that_others_wrote_is_left_so,
        _a_record_that_exists_counts_as_ones_own,
        _a_lock_is_updated_whatever_its_version,
        _a_failed_check_is_not_repeated,
        _a_release_deletes_what_it_finds,
        _an_unfinished_release_is_forgotten,
        _a_loss_is_not_told,
        _a_leader_stays_leader_in_a_new_session,
        _nobody_elects_when_the_leader_is_gone,
        _a_reconnected_follower_does_not_look_who_leads,
    )
}
