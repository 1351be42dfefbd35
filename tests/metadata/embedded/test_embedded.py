"""The embedded store passes the contract, also when everything is checked after reopening its file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.store import MetadataStore
from tests.metadata.record_contract import RecordContract
from tests.metadata.watch_contract import WatchContract


class TestEmbeddedStore(RecordContract, WatchContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
        store = await EmbeddedStore.open(tmp_path / "metadata.sqlite")
        yield store
        await store.close()


class TestEmbeddedStoreReopened(RecordContract, WatchContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
        self.path = tmp_path / "metadata.sqlite"
        self.opened = await EmbeddedStore.open(self.path)
        yield self.opened
        await self.opened.close()

    async def settle(self, store: MetadataStore) -> MetadataStore:
        await self.opened.close()
        self.opened = await EmbeddedStore.open(self.path)
        return self.opened
