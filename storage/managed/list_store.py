"""The ledger list in memory and in its record: each change is written by compare-and-set first, and only then shows in
memory.

One change runs at a time. A change is a function on a LedgerList. The function is tried on a copy, the copy is written,
and then the function is applied to the live list (`ledgers`). The live list may have grown meanwhile. That is no
conflict: changes concern the closed ledgers and the choice of the current one, whereas growth concerns only the content
of the current one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from magnetar.metadata.errors import MetadataError
from magnetar.storage.managed.lazy_lock import LazyLock
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.list_record import serialize_list
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerFenced, MetaStoreFault
from magnetar.storage.managed.versioned_record import SupersededError, VersionedRecord
from pulsar_proto.ids import Position

Edit = Callable[[LedgerList], None]


class ListStore(LazyLock):
    """The list of one managed ledger. `ledgers`, `terminated` and `properties` have the values that were written last,
    except that `ledgers` grows by appends between writes."""

    __slots__ = (
        "_extra",
        "_record",
        "_unexplained",
        "label",
        "latest_properties",
        "ledgers",
        "properties",
        "terminated",
    )

    def __init__(
        self,
        label: str,
        record: VersionedRecord,
        ledgers: LedgerList,
        *,
        terminated: Position | None,
        properties: Mapping[str, str],
        extra: bytes,
    ) -> None:
        self.label = label
        self._record = record
        self._extra = extra
        self._lock_made = None
        self._unexplained: int | None = -1
        """How many more changes of the record were seen than this owner has made; the opening made one. None when
        changes may have been overlooked."""
        self.ledgers = ledgers
        self.terminated = terminated
        self.properties: Mapping[str, str] = properties
        self.latest_properties: Callable[[], Mapping[str, str]] = dict
        """Returns properties that change often. Their latest values are written with each change of the list
        (ManagedLedgerInterceptor.onUpdateManagedLedgerInfo)."""

    @property
    def in_doubt(self) -> bool:
        """Whether the record may differ from `ledgers`, because the answer to a write was lost."""
        return self._record.in_doubt

    async def change(
        self,
        edit: Edit | None = None,
        *,
        terminated: Position | None = None,
        properties: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None,
    ) -> None:
        """Writes the changed record, then makes the change in memory. Raises ManagedLedgerFenced, MetaStoreFault; after
        an error memory is unchanged. After MetaStoreFault the write may have arrived; the next change finds out
        whether it has."""
        async with self._lock:
            trial = self.ledgers.copy()
            if edit is not None:
                edit(trial)
            new_terminated = self.terminated if terminated is None else terminated
            new_properties = self.properties if properties is None else properties(self.properties)
            new_properties = {**new_properties, **self.latest_properties()}
            value = serialize_list(trial.infos, new_terminated, new_properties, self._extra)
            with self._faults_told():
                await self._record.write(value)
            if self._unexplained is not None:
                self._unexplained -= 1
            if edit is not None:
                edit(self.ledgers)
            self.terminated, self.properties = new_terminated, new_properties

    def changes_seen(self, changes: int | None) -> bool:
        """Notes that `changes` further changes of the record were seen; None says that changes may have been
        overlooked. Returns whether `check` has to find out if another owner made one of them."""
        self._unexplained = None if self._unexplained is None or changes is None else self._unexplained + changes
        return self._unexplained != 0

    async def check_now(self) -> None:
        """Checks that this owner wrote the record last, and asks the store in any case. Raises what `check` raises."""
        self.changes_seen(None)
        await self.check()

    async def check(self) -> None:
        """Checks that this owner wrote the record last. Raises ManagedLedgerFenced when another owner has written or
        deleted the record, and MetaStoreFault when that cannot be found out now.

        The store is not asked when all changes that were seen were made by this owner. One of them may be a write that
        is under way at the time of the call: the event comes before the answer."""
        async with self._lock:
            if self._unexplained == 0:
                return
            self._unexplained = 0  # changes that are seen from now on may have come after the answer
            try:
                with self._faults_told():
                    await self._record.check()
            except BaseException:
                self._unexplained = None
                raise

    @contextmanager
    def _faults_told(self) -> Iterator[None]:
        try:
            yield
        except SupersededError as error:
            raise ManagedLedgerFenced(self.label, f"another owner wrote the ledger list: {error}") from error
        except MetadataError as error:
            raise MetaStoreFault(self.label, str(error)) from error
