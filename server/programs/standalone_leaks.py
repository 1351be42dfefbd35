"""Makes the object by which a standalone server looks for its own leaks. Only REST calls use it, so this module is
imported by the first of them."""

from pathlib import Path

from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.server.leaks.leak_steps import OWN_STORE
from magnetar.server.leaks.live_leaks import LiveLeaks
from magnetar.server.programs.broker_parts import wall_clock_ms
from magnetar.server.programs.storage_start import BOOKIE_ID
from magnetar.server.topics.broker_service import BrokerService
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.leaks.entry_reader import EntryReader
from magnetar.storage.leaks.finder import Site
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver


def make_leaks(
    folder: Path,
    store: MetadataStore,
    bookie: Bookie,
    bookkeeper: BookKeeper,
    config: LedgerConfig,
    service: BrokerService,
) -> LiveLeaks:
    """Returns the leaks of a server; their backups are in `folder`."""
    driver = LedgerMetadataDriver(store, LedgerIdGenerator(store).next_id)
    reader = EntryReader(bookkeeper, driver, {BOOKIE_ID: bookie}.__getitem__, config.add_entry_timeout_sec)

    def unsettled() -> frozenset[str]:
        topics = service.topics.items()
        compacting = [name for name, topic in topics if topic.compaction and topic.compaction.is_running]
        return frozenset((*compacting, *service.closing_topics))

    return LiveLeaks(
        Site({OWN_STORE: store}, [store], store, reader),
        folder,
        wall_clock_ms,
        settled=service.reaper.idle,
        is_doomed=service.reaper.is_waiting,
        unsettled=unsettled,
    )
