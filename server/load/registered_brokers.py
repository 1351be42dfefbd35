"""The brokers that are registered in the cluster and their reports. A watch keeps this list current.

A registration is an ephemeral record below /loadbalance/brokers; the record ends with its broker's session. A broker
whose record is deleted is removed from the list at once; a record with any other event is read again. While the store
cannot be reached, callers get the last known reports.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from magnetar.metadata.errors import MetadataError, NoNodeError, StoreClosedError
from magnetar.metadata.store import CancelWatch, EventType, MetadataStore, RecordEvent
from magnetar.server.load.broker_report import LocalBrokerData

log = logging.getLogger(__name__)

BROKERS = "/loadbalance/brokers"

READS_AT_ONCE = 32
RETRY_SECONDS = 2.0
"""The pause before records are read again after the store failed."""
SETTLE_SECONDS_MAX = 5.0
"""How long a caller waits for reports that are being read. After that the caller gets the known reports."""


def broker_path(broker_id: str) -> str:
    return f"{BROKERS}/{broker_id}"


class RegisteredBrokers:
    """The list of registered brokers. One object serves the process. All calls are made on the loop's thread.
    `on_change` is called with the brokers whose reports were added, changed or removed; it must not raise and must not
    block."""

    def __init__(self, store: MetadataStore, on_change: Callable[[Iterable[str]], None] = lambda _: None) -> None:
        self._store = store
        self._on_change = on_change
        self._reports: dict[str, LocalBrokerData] = {}
        self._due: set[str] = set()
        """The brokers whose records have to be read."""
        self._list_is_due = False
        self._settled = asyncio.Event()
        self._settled.set()
        self._reading: asyncio.Task[None] | None = None
        self._cancel_watch: CancelWatch | None = None

    @property
    def reports(self) -> Mapping[str, LocalBrokerData]:
        return self._reports

    async def start(self) -> None:
        """Begins to watch the registrations. Returns when the reports were read, or after SETTLE_SECONDS_MAX."""
        self._cancel_watch = self._store.watch(BROKERS, self._heard, recursive=True)
        self._list_is_due = True
        self._read_soon()
        await self.settled()

    def close(self) -> None:
        if self._cancel_watch is not None:
            self._cancel_watch()
            self._cancel_watch = None
        if self._reading is not None:
            self._reading.cancel()
        self._settled.set()

    async def settled(self) -> Mapping[str, LocalBrokerData]:
        """Waits until all changes that were heard so far have been read, for SETTLE_SECONDS_MAX at most, and returns
        the reports."""
        if self._store.is_connected and not self._settled.is_set():
            try:
                async with asyncio.timeout(SETTLE_SECONDS_MAX):
                    await self._settled.wait()
            except TimeoutError:
                log.warning("the reports of %d brokers are still being read", len(self._due))
        return self._reports

    def _heard(self, event: RecordEvent) -> None:
        if event.path == BROKERS:
            self._list_is_due = True
        elif event.type is not EventType.CHILDREN_CHANGED:
            broker = event.path.removeprefix(f"{BROKERS}/")
            self._due.add(broker)
            if event.type is EventType.DELETED and self._reports.pop(broker, None) is not None:
                self._on_change((broker,))
        else:
            return
        self._read_soon()

    def _read_soon(self) -> None:
        self._settled.clear()
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            while self._list_is_due or self._due:
                try:
                    await self._read_due()
                except StoreClosedError:
                    return
                except MetadataError as error:
                    log.warning("the brokers' reports cannot be read, again in %g s: %s", RETRY_SECONDS, error)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._reading = None
            self._settled.set()

    async def _read_due(self) -> None:
        """Reads records until no record is due. Raises MetadataError when the store fails; the records that were not
        read are still due."""
        while self._list_is_due or self._due:
            if self._list_is_due:
                await self._read_list()
            due = sorted(self._due)[:READS_AT_ONCE]
            self._due.difference_update(due)
            try:
                records = await asyncio.gather(*(self._store.get(broker_path(broker)) for broker in due))
            except BaseException:
                self._due.update(due)
                raise
            changed = [
                broker
                for broker, record in zip(due, records, strict=True)
                # A record that changed during its read is read again.
                if broker not in self._due and self._take(broker, None if record is None else record.value)
            ]
            if changed:
                self._on_change(changed)

    async def _read_list(self) -> None:
        self._list_is_due = False
        try:
            found = set(await self._store.children(BROKERS))
        except NoNodeError:
            found = set()
        except BaseException:
            self._list_is_due = True
            raise
        if not self._list_is_due:
            self._due |= found | self._reports.keys()

    def _take(self, broker: str, value: bytes | None) -> bool:
        """Takes the value of a record that was read, or None for a missing record. Returns whether the report differs
        from the known one."""
        report = None if value is None else LocalBrokerData.read(value)
        if report is None:
            if value is not None:
                log.warning("the registration of %s cannot be read: %r", broker, value[:200])
            return self._reports.pop(broker, None) is not None
        is_change = self._reports.get(broker) != report
        self._reports[broker] = report
        return is_change
