"""Makes an ephemeral record belong to the present session. Locks and the leader's record use this."""

from magnetar.metadata.coordination.lock_errors import LockBusyError
from magnetar.metadata.coordination.lock_rules import SameValue, Step, next_step
from magnetar.metadata.errors import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    OutcomeUnknownError,
)
from magnetar.metadata.store import MetadataStore, Record, Stat

ROUNDS_MAX = 10
"""How often a record is read again because others were faster or an answer was lost. After that the lock counts as
busy, because other processes keep taking and releasing the lock."""


def same_bytes(one: bytes, other: bytes) -> bool:
    return one == other


async def create_own(store: MetadataStore, path: str, value: bytes) -> Stat | None:
    """Creates the ephemeral record with its parents. Returns None when there is a record already, or when it is not
    known whether this call created the record. Raises MetadataError for other failures of the store."""
    try:
        return (await store.create(path, value, ephemeral=True, make_parents=True)).stat
    except (NodeExistsError, NoNodeError, OutcomeUnknownError):
        return None  # NoNodeError: each time the parent was made, somebody removed the parent again


async def take_record(store: MetadataStore, path: str, value: bytes, is_same: SameValue) -> Stat:
    """Returns once the record belongs to the present session and has this value.

    Raises LockBusyError when the record belongs to another process, and MetadataError when the store fails.
    """
    for _ in range(ROUNDS_MAX):
        found = await store.get(path)
        match next_step(found, value, store.session_id, is_same):
            case Step.KEEP:
                assert found is not None
                return found.stat
            case Step.YIELD:
                assert found is not None
                raise LockBusyError(path, found.value)
            case Step.REPLACE:
                assert found is not None
                if not await delete_found(store, path, found):
                    continue
            case Step.CREATE:
                pass
        stat = await create_own(store, path, value)
        if stat is not None and stat.owner == store.session_id:
            return stat
    raise LockBusyError(path)


async def delete_found(store: MetadataStore, path: str, found: Record) -> bool:
    """Deletes the record if it still has the version that was read. Returns whether the record is gone. Raises
    MetadataError when the store fails."""
    try:
        await store.delete(path, found.stat.version)
    except NoNodeError:
        return True
    except (BadVersionError, OutcomeUnknownError):
        return False
    return True
