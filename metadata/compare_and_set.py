"""Changes records that several processes write. A loop reads the record and writes the new value on condition that no
other process has written the record since.

Three changes of records do not go through this loop. A ledger's metadata starts from what its handle knows, without a
read (`storage/ledger/metadata_driver.py`). A record with a single owner is never read again after a lost round, because
a foreign version means that the ownership is lost (`storage/managed/versioned_record.py`). A schema's change writes a
ledger before its record (`server/schema/schema_registry.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from magnetar.metadata.errors import BadVersionError, MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import MetadataStore, Record
from pulsar_proto.backoff import backoff

ATTEMPTS_MAX = 20
"""How many rounds in a row a change may lose to other writers before it fails, with pauses of about ten seconds
together."""

AT_ONCE = 3
"""After how many lost rounds a change begins to pause before the next one."""
PAUSE_SECONDS_FIRST = 0.005
PAUSE_SECONDS_MAX = 1.0
"""The longest pause between two rounds. The pause doubles with each lost round up to this length."""

TURN_SECONDS = 1.0
"""How long a change waits for the earlier changes of this process to the same record. When these take longer, for
instance because the store does not answer, the waiting change starts beside them."""

Change = Callable[[bytes | None], bytes | None]
"""A function from a record's value (None: there is no record) to its new value (None: nothing is to be written). The
function is called again when another writer was faster. An error that the function raises ends the update, and nothing
is written."""


class _Queue:
    """The changes of one record that are under way in this process."""

    __slots__ = ("length", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held by the change whose turn it is."""
        self.length = 0


_queues: "WeakKeyDictionary[MetadataStore, dict[str, _Queue]]" = WeakKeyDictionary()
"""For each store, the queues of the records that are being changed, by path."""


async def update_record(
    store: MetadataStore, path: str, change: Change, *, attempts_max: int = ATTEMPTS_MAX
) -> Record | None:
    """Changes one record. Returns the record as it is after the change, or None when there is no record then.

    1. Read the record.
    2. Apply `change` to its value.
    3. If there is nothing to write, return the record as it was read.
    4. If there was no record, create it, with its parents; otherwise write the value, provided that the record has the
       version that was read. On success return what was written.
    5. If another writer was faster and made, changed or deleted the record, go back to 1, from the third lost round on
       after a pause.
    6. After `attempts_max` rounds raise MetadataError.

    The changes of this process to one record wait for each other, so that only other processes make a round fail.
    Raises the errors of `change`, and MetadataError. Source: MetadataUpdateLoop of BookKeeper's client.
    """
    async with _turn(store, path):
        for attempt in range(attempts_max):
            if attempt >= AT_ONCE:
                await asyncio.sleep(backoff(attempt - AT_ONCE + 1, PAUSE_SECONDS_FIRST, PAUSE_SECONDS_MAX))
            record = await store.get(path)
            value = change(None if record is None else record.value)
            if value is None:
                return record
            try:
                if record is None:
                    stat = (await store.create(path, value, make_parents=True)).stat
                else:
                    stat = await store.put(path, value, record.stat.version)
                return Record(value, stat)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
    raise rounds_lost(path, attempts_max)


@asynccontextmanager
async def _turn(store: MetadataStore, path: str) -> AsyncIterator[None]:
    """A context that is entered after the earlier changes of this process to the record, or after TURN_SECONDS at the
    latest."""
    queues = _queues.setdefault(store, {})
    queue = queues.setdefault(path, _Queue())
    queue.length += 1
    is_ours = False
    try:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                is_ours = await queue.lock.acquire()
        except TimeoutError:
            pass
        yield
    finally:
        if is_ours:
            queue.lock.release()
        queue.length -= 1
        if not queue.length:
            del queues[path]


def rounds_lost(path: str, attempts: int = ATTEMPTS_MAX) -> MetadataError:
    """Returns the error of a change that gives up because other writers were faster each time."""
    return MetadataError(path, f"lost {attempts} compare-and-set rounds in a row")
