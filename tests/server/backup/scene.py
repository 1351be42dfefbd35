"""A store, a bookie and a ledger client in the test's own process, as a standalone server builds them, and backups of
them without HTTP."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import initialize_cluster
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.witness import FILE_NAME, Witness
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.server.backup.receiving import Outcome, Progress, make_backup
from magnetar.server.backup.source import BackupSource
from magnetar.server.programs.storage_start import BOOKIE_ID
from magnetar.server.tools.connection.http_client import AdminHttp
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_listing import list_ledgers

INSTANCE = "an-instance"


class Scene:
    """An open server without ports."""

    def __init__(self, store: EmbeddedStore, bookie: Bookie) -> None:
        self.store = store
        self.bookie = bookie
        self.source = BackupSource(store, bookie, "standalone")
        self.client = BookKeeper(
            store,
            {BOOKIE_ID: bookie}.__getitem__,
            bookies=lambda: [BOOKIE_ID],
            next_ledger_id=LedgerIdGenerator(store).next_id,
            rng=random.Random(1),
            config=LedgerConfig(skip_given_up_entries=True),
        )

    async def ledger(self, count: int, *, payload: bytes = b"payload") -> int:
        """Makes a closed ledger and returns its id."""
        handle = await self.client.create_ledger()
        for number in range(count):
            await handle.add(payload + b"%d" % number)
        await handle.close()
        return handle.ledger_id

    async def back_up(self, folder: Path, *, is_full: bool = False) -> Outcome:
        http = cast(AdminHttp, _Direct(self.source, asyncio.get_running_loop()))
        return await asyncio.to_thread(make_backup, http, folder, is_full=is_full, progress=Progress(None))


class _Direct:
    """Stands for the HTTP client: hands the source's stream to the thread of the command."""

    def __init__(self, source: BackupSource, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._loop = loop

    @contextmanager
    def stream(self, path: str, body: bytes) -> Iterator[Iterator[bytes]]:
        parts = self._source.stream(body)

        def each() -> Iterator[bytes]:
            while (part := self._call(anext(parts, None))) is not None:
                yield part

        try:
            yield each()
        finally:
            self._call(parts.aclose())

    def _call(self, work: Any) -> Any:
        async def awaited() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(60)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Opens the server on a data folder, new or restored."""
    (folder / "ledgers").mkdir(parents=True, exist_ok=True)
    witness = Witness(str(folder / "ledgers" / FILE_NAME))
    stored = await EmbeddedStore.read(folder / "metadata.sqlite", witness)
    store = await EmbeddedStore.start(stored, witness)
    try:
        await initialize_cluster(
            store, "standalone", broker_service_url="pulsar://x", web_service_url="http://x", instance_id=INSTANCE
        )
        config = BookieConfig(
            journal_directories=(str(folder / "journal"),),
            ledger_directories=(str(folder / "ledgers"),),
            disk_usage_threshold=0.9995,
        )
        bookie = await Bookie.open(
            config, bookie_id=BOOKIE_ID, instance_id=INSTANCE, list_ledgers=partial(list_ledgers, store)
        )
        try:
            await store.begin_witness(witness)
            if await store.exists(paths.bookie_path(BOOKIE_ID)) is None:
                await store.create(paths.bookie_path(BOOKIE_ID), b"", make_parents=True)
            made = Scene(store, bookie)
            yield made
            await made.client.close()
        finally:
            await bookie.close()
    finally:
        await store.close()
