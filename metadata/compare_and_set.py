"""The loop by which a record that several processes write is changed: read it, change it, write it if nobody else has.

Three changes of records do not go through this loop. A ledger's metadata starts from what its handle knows, without a
read (`storage/ledger/metadata_driver.py`). A record with a single owner is never read again after a lost round, because
a foreign version means that the ownership is lost (`storage/managed/versioned_record.py`). A schema's change writes a
ledger before its record (`server/schema/schema_registry.py`).
"""

from collections.abc import Callable

from magnetar.metadata.errors import BadVersionError, MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import MetadataStore, Record

ATTEMPTS_MAX = 20
"""How many rounds in a row a change may lose to other writers before it fails."""

Change = Callable[[bytes | None], bytes | None]
"""A function from a record's value (None: there is no record) to its new value (None: nothing is to be written). It is
called again when another writer was faster. An error that it raises ends the update, and nothing is written."""


async def update_record(
    store: MetadataStore, path: str, change: Change, *, attempts_max: int = ATTEMPTS_MAX
) -> Record | None:
    """Changes one record. Returns the record as it is after the change, or None when there is no record then.

    1. Read the record.
    2. Apply `change` to its value.
    3. If there is nothing to write, return the record as it was read.
    4. If there was no record, create it, with its parents; otherwise write the value, provided that the record has the
       version that was read. On success return what was written.
    5. If another writer was faster and made, changed or deleted the record, go back to 1.
    6. After `attempts_max` rounds raise MetadataError.

    Raises the errors of `change`, and MetadataError. Source: MetadataUpdateLoop of BookKeeper's client.
    """
    for _ in range(attempts_max):
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


def rounds_lost(path: str, attempts: int = ATTEMPTS_MAX) -> MetadataError:
    """Returns the error of a change that gives up because other writers were faster each time."""
    return MetadataError(path, f"lost {attempts} compare-and-set rounds in a row")
