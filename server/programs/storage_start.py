"""Opens a standalone server's metadata and bookie together: both are read and checked before either is changed.

The metadata file and the bookie's folders must be of the same time: metadata that is older than the bookie's data lacks
acknowledged topics, whose ledgers the garbage collector would delete; a bookie that is older, or empty, has lost
entries. The witness, a small file in the bookie's folder that counts the commits of the metadata file, shows whether
they fit (`magnetar.metadata.embedded.witness`). Data of a version without a witness is checked once by the ids of its
ledgers.
"""

import logging
import os
import uuid
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import initialize_cluster, publish_cluster_urls
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.stored_metadata import StoredMetadata, advice
from magnetar.metadata.embedded.witness import FILE_NAME, Witness
from magnetar.metadata.errors import StoreMismatchError
from magnetar.metadata.tree_rules import Tree
from magnetar.metadata.unique_ids import ledger_ids_end, skip_ledger_ids
from magnetar.server.config.broker_config import ServerConfig
from magnetar.server.config.metadata_settings import MetadataSettings
from magnetar.server.network.ports import Urls
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_opening import RecoveredStorage
from magnetar.storage.bookie.cookie import BookieDirectories
from magnetar.storage.ledger.ledger_listing import list_ledgers

log = logging.getLogger(__name__)

Read = StoredMetadata[Tree]
"""The content of a standalone server's metadata file."""

BOOKIE_ID = "127.0.0.1:3181"
"""The id of the only bookie in the records of ledgers. Apache's standalone writes this id, too."""


def bookie_of(config: ServerConfig, folder: Path) -> BookieConfig:
    """Returns the settings of the bookie whose data is in the folder."""
    return config.bookie(journal_directories=(folder / "journal",), ledger_directories=(folder / "ledgers",))


async def open_storage(
    config: ServerConfig, folder: Path, urls: Urls, closing: AsyncExitStack
) -> tuple[EmbeddedStore, Bookie]:
    """Opens the metadata and the bookie; `closing` closes them again. Raises MetadataError, BookieStartError or OSError
    when one of them cannot be opened. If the content of the files is the reason, no file was changed."""
    bookie_config = bookie_of(config, folder)
    witness = Witness(os.path.join(bookie_config.ledger_directories[0], FILE_NAME))
    accepted_generation = config.fill(MetadataSettings).accept_metadata_generation
    stored = await EmbeddedStore.read(folder / "metadata.sqlite", witness, accepted_generation)
    instance_id = _instance_id(stored, bookie_config, accepted_generation)
    recovered = await Bookie.read(bookie_config, bookie_id=BOOKIE_ID, instance_id=instance_id)
    try:
        stored = _judge_unwitnessed(stored, recovered, accepted_generation)
        store = await EmbeddedStore.start(stored, witness)
        closing.push_async_callback(store.close)
        if stored.is_accepted:
            await _keep_what_is_unknown(store, recovered)
        elif stored.is_unwitnessed:
            await _keep_what_may_be_lost(store, stored, recovered)
        await _write_cluster_records(store, config.broker.cluster_name, instance_id, urls)
    except BaseException:
        recovered.release()
        raise
    bookie = await Bookie.start(bookie_config, recovered, list_ledgers=partial(list_ledgers, store))
    closing.push_async_callback(bookie.close)
    if stored.is_accepted or stored.is_unwitnessed:
        await (
            bookie.checkpoint()
        )  # The record of the kept ledgers must be durable before the witness accepts the metadata.
    if stored.is_accepted or stored.is_unwitnessed:
        await store.begin_witness(witness)
        log.info("metadata file %s: its commits are witnessed by %s", stored.path, witness.path)
    return store, bookie


def _instance_id(stored: Read, config: BookieConfig, accepted_generation: int) -> str:
    """Returns the instance id in the metadata. For metadata without an id, returns the id in the bookie's folders if
    the operator has accepted such metadata, or a new id if the folders have none. Raises StoreMismatchError when the
    folders have an id and the operator has not accepted that, and DirectoryMismatch when a cookie cannot be read."""
    record = stored.tree.find(paths.INSTANCE_ID)
    if record is not None:
        return record.value.decode()
    for directory, cookie in BookieDirectories(config, BOOKIE_ID, "").cookies().items():
        if cookie is not None:
            if stored.is_meant_by(accepted_generation):
                return cookie.instance_id
            finding = "is missing" if stored.is_new else "holds no records of a server"
            raise StoreMismatchError(stored.path, f"{finding}, and {directory} belongs to one. {advice(stored)}")
    return str(uuid.uuid4())


def _judge_unwitnessed(stored: Read, recovered: RecoveredStorage, accepted_generation: int) -> Read:
    """Checks metadata that has no witness yet by the ids of its ledgers. Raises StoreMismatchError if the bookie holds
    ledgers that the metadata cannot know, or is new although the metadata has given out ids; marks the metadata as
    accepted instead if the operator accepts it. The check does not notice older metadata that lacks no ledger."""
    end, held = ledger_ids_end(stored.tree), max(recovered.states.ids(), default=-1)
    folder = recovered.directories.ledgers[0]
    if not stored.is_unwitnessed:
        return stored
    if held >= end:
        reason = (
            f"is older than what the bookie holds: {folder} has ledger {held}, and the metadata gave out the ids below "
            f"{end} only"
        )
    elif recovered.is_new and end > 0:
        reason = f"has given out {end} ledger ids, and {folder} is empty, as if its disk were not mounted"
    else:
        return stored
    if stored.is_meant_by(accepted_generation):
        return stored._replace(is_accepted=True)
    raise StoreMismatchError(stored.path, f"{reason}. {advice(stored)}")


async def _keep_what_is_unknown(store: EmbeddedStore, recovered: RecoveredStorage) -> None:
    """Protects the ledgers that accepted metadata may lack: the garbage collector does not delete them, and their ids
    are not given out again. Called after the operator accepted the metadata. Raises MetadataError when the store
    fails."""
    held = recovered.states.ids()
    unknown = held - await list_ledgers(store)
    recovered.states.keep(unknown)
    next_id = await skip_ledger_ids(store, max(held, default=0))
    log.warning(
        "metadata was accepted as it is: %d ledgers that it does not list are kept, new ledgers begin with id %d",
        len(unknown),
        next_id,
    )


async def _keep_what_may_be_lost(store: EmbeddedStore, stored: Read, recovered: RecoveredStorage) -> None:
    """Protects the ledgers that metadata without a witness does not list, at the first start with a witness. Each of
    these ledgers was either deleted and not collected yet, or lost from the metadata when the log of the metadata file
    lost its end. The two cases cannot be distinguished, so the garbage collector must not delete these ledgers. Raises
    MetadataError when the store fails."""
    unknown = recovered.states.ids() - await list_ledgers(store)
    if not unknown:
        return
    recovered.states.keep(unknown)
    log.warning(
        "metadata file %s is of an earlier version, which could not tell whether it is whole: %d ledgers that it does "
        "not list are kept, the first are %s; they were deleted just before the last stop, or topics are missing",
        stored.path,
        len(unknown),
        sorted(unknown)[:20],
    )


async def _write_cluster_records(store: EmbeddedStore, cluster: str, instance_id: str, urls: Urls) -> None:
    await initialize_cluster(
        store, cluster, broker_service_url=urls.broker, web_service_url=urls.web, instance_id=instance_id
    )
    await publish_cluster_urls(
        store,
        cluster,
        broker_service_url=urls.broker,
        broker_service_url_tls=urls.broker_tls,
        web_service_url=urls.web,
        web_service_url_tls=urls.web_tls,
    )
