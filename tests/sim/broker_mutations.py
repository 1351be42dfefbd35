"""Bugs of brokers, planted on purpose. With each of them some history of brokers breaks a claim."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from magnetar.metadata import paths
from magnetar.server.load.registered_brokers import RegisteredBrokers
from magnetar.server.namespaces import lookup_rules
from magnetar.server.namespaces.bundle_moves import BundleMoves
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.lookup_rules import NextStep
from magnetar.server.topics.bundle_topics import BundleTopics
from magnetar.server.topics.publishing.deduplication import Deduplication
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.managed.cursor_store import CursorStore
from magnetar.storage.managed.takeover_watch import TakeoverWatch
from magnetar.storage.managed.versioned_record import VersionedRecord
from tests.sim import lock_mutations, mutations
from tests.sim.broker_history import tell_of_brokers

Mutation = Callable[[], AbstractContextManager[Any]]

_write = VersionedRecord.write


def _written_whatever_the_version(levels: int) -> AbstractContextManager[Any]:
    """Has the records at this depth below /managed-ledgers written without their versions: 4 stands for the lists of
    ledgers, 5 for the cursors."""

    async def write(self: VersionedRecord, value: bytes) -> None:
        is_meant = self.path.removeprefix(f"{paths.MANAGED_LEDGERS}/").count("/") == levels - 1
        if is_meant:
            stat = await self._store.put(self.path, value)
            self._version, self._doubtful = stat.version, None
        else:
            await _write(self, value)

    stack = ExitStack()
    stack.enter_context(patch.object(VersionedRecord, "write", write))
    stack.enter_context(patch.object(TakeoverWatch, "_on_event", lambda self, event: None))
    return stack


def _a_list_is_written_whatever_its_version() -> AbstractContextManager[Any]:
    return _written_whatever_the_version(4)


def _a_bundle_is_given_away_before_its_topics_are_closed() -> AbstractContextManager[Any]:
    async def unload(self: BundleMoves, bundle: BundleName) -> bool:
        if not self._ownership.deactivate(bundle):
            return False
        await self._ownership.release(bundle)
        await self._topics.close(bundle)
        return True

    return patch.object(BundleMoves, "_unload", unload)


def _brokers_that_do_not_lead_place_bundles() -> AbstractContextManager[Any]:
    def next_step(*, authoritative: bool, is_leader: bool, leader_is_known: bool) -> NextStep:
        return NextStep.TAKE if authoritative else NextStep.PLACE

    return patch.object(lookup_rules, "next_step", next_step)


def _the_former_owner_is_not_fenced() -> AbstractContextManager[Any]:
    """The last ledger of a topic is opened without recovery."""
    real = BookKeeper.open_ledger

    async def open_ledger(self: BookKeeper, ledger_id: int, *, recover: bool = True) -> Any:
        return await real(self, ledger_id, recover=False)

    return patch.object(BookKeeper, "open_ledger", open_ledger)


def _a_cursor_is_found_where_it_was_created() -> AbstractContextManager[Any]:
    """A cursor that moved to its ledger is recovered from its node only."""
    real = CursorStore.persist

    async def persist(self: CursorStore, *state: Any) -> None:
        if self.ledger_id < 0:
            await real(self, *state)

    return patch.object(CursorStore, "persist", persist)


def _topics_of_a_lost_bundle_stay_open() -> AbstractContextManager[Any]:
    stack = ExitStack()
    stack.enter_context(patch.object(BundleTopics, "_bundle_lost", lambda self, bundle: None))
    stack.enter_context(patch.object(TakeoverWatch, "_on_event", lambda self, event: None))
    return stack


def _a_dead_broker_stays_a_candidate() -> AbstractContextManager[Any]:
    real = RegisteredBrokers._take

    def take(self: RegisteredBrokers, broker: str, value: bytes | None) -> bool:
        return False if value is None else real(self, broker, value)

    stack = ExitStack()
    stack.enter_context(patch.object(RegisteredBrokers, "_take", take))
    stack.enter_context(
        patch.object(RegisteredBrokers, "_heard", lambda self, event: _heard_without_losses(self, event))
    )
    return stack


_heard = RegisteredBrokers._heard


def _heard_without_losses(self: RegisteredBrokers, event: Any) -> None:
    known = dict(self._reports)
    self._reports, kept = {}, known
    try:
        _heard(self, event)
    finally:
        self._reports = {**kept, **self._reports}


def _deduplication_forgets_what_came_after_its_snapshot() -> AbstractContextManager[Any]:
    async def replay(self: Deduplication, now_s: float) -> None:
        self.is_complete = True

    return patch.object(Deduplication, "replay", replay)


MUTATIONS: dict[str, Mutation] = (
    {
        mutation.__name__.removeprefix("_"): mutation
        for mutation in (
            _a_list_is_written_whatever_its_version,
            _a_bundle_is_given_away_before_its_topics_are_closed,
            _brokers_that_do_not_lead_place_bundles,
            _the_former_owner_is_not_fenced,
            _a_cursor_is_found_where_it_was_created,
            _topics_of_a_lost_bundle_stay_open,
            _a_dead_broker_stays_a_candidate,
            _deduplication_forgets_what_came_after_its_snapshot,
        )
    }
    | {
        name: lock_mutations.MUTATIONS[name]
        for name in (
            "a_lock_is_kept_after_the_loss_of_its_session",
            "a_loss_is_not_told",
            "nobody_elects_when_the_leader_is_gone",
        )
    }
    | {name: mutations.MUTATIONS[name] for name in ("recovery_does_not_fence_at_all",)}
)

KNOWN: dict[str, int] = {}
"""Seeds whose histories noticed when this was written, which keeps the search short."""


def first_broken(name: str, *, seeds: int) -> tuple[int, str] | None:
    """Plants the bug, and returns the first seed whose history breaks a claim, with the complaint. Returns None when
    none of the first `seeds` histories does. Raises the complaint of a history that breaks a claim without the bug."""
    found = None
    with MUTATIONS[name]():
        for seed in (*([KNOWN[name]] if name in KNOWN else []), *range(seeds)):
            try:
                tell_of_brokers(seed)
            except Exception as error:
                found = seed, str(error)
                break
    if found is not None:
        tell_of_brokers(found[0])
    return found
