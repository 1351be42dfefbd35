"""A cluster of fake bookies, a metadata store, clients on them, and the claims that must hold after any history."""

from collections.abc import Sequence
from itertools import count
from random import Random

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.fragment_rules import fragment_of
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from magnetar.storage.ledger.quorum_rules import write_set
from pulsar_proto.records.entry_digest import EntryCodec
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState
from tests.storage.ledger.distant_store import DistantStore
from tests.storage.ledger.fake_bookie import FakeCluster
from tests.waiting import until

CONFIG = LedgerConfig(add_entry_timeout_sec=5, read_entry_timeout_sec=5)


class Scene:
    def __init__(self, bookies: int, *, seed: int = 0, delay_max: float = 0.0, answers_in_parts: bool = False) -> None:
        self.cluster = FakeCluster(bookies, seed=seed, delay_max=delay_max, answers_in_parts=answers_in_parts)
        self.writable = self.cluster.names()
        """The bookies that new ensembles and replacements may use."""
        self.store = MemoryStore()
        self.ways_to_store: dict[str, DistantStore] = {}
        self._ids = count(1)
        self.driver = LedgerMetadataDriver(self.store, self._next_id)

    def client(self, name: str, config: LedgerConfig = CONFIG) -> BookKeeper:
        self.ways_to_store[name] = DistantStore(self.store, self.cluster.delay)
        return BookKeeper(
            self.ways_to_store[name],
            self.cluster.channel_of(name),
            bookies=lambda: self.writable,
            next_ledger_id=self._next_id,
            rng=Random(f"{name} {self.cluster.rng.random()}"),
            config=config,
        )

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        return (await self.driver.read(ledger_id)).metadata

    async def _next_id(self) -> int:
        return next(self._ids)


class Writer:
    """Appends through a handle and keeps the receipts, each of which must come once and in order."""

    def __init__(self, handle: WriteHandle) -> None:
        self.handle = handle
        self.payloads: dict[int, bytes] = {}
        self.acked: list[int] = []
        self.failed: list[tuple[int, LedgerError]] = []
        self._next_answer = 0
        self._appends: list[Append] = []
        self._lac_seen = -1

    def append(self, *payloads: bytes) -> Append:
        answered = self._next_answer
        append = self.handle.append(payloads, self._done)
        assert self._next_answer == answered, "done was called from inside append"
        for offset, payload in enumerate(payloads):
            self.payloads[append.first_entry_id + offset] = payload
        self._appends.append(append)
        return append

    @property
    def answered(self) -> bool:
        return self._next_answer == len(self._appends)

    def _done(self, append: Append) -> None:
        assert append is self._appends[self._next_answer], "receipts out of order"
        self._next_answer += 1
        if append.error is not None:
            self.failed += [(entry_id, append.error) for entry_id in append.ids]
            return
        assert not self.failed, "a receipt after a failure"
        assert self.handle.last_add_confirmed == append.ids[-1]
        assert self.handle.last_add_confirmed > self._lac_seen, "the LAC went back"
        self._lac_seen = self.handle.last_add_confirmed
        self.acked += append.ids


async def answered(writer: Writer) -> None:
    await until(lambda: writer.answered)


async def new_ledger(client: BookKeeper, sizes: tuple[int, int, int]) -> tuple[WriteHandle, Writer]:
    handle = await client.create_ledger(ensemble_size=sizes[0], write_quorum=sizes[1], ack_quorum=sizes[2])
    return handle, Writer(handle)


def members(handle: WriteHandle) -> list[str]:
    return list(handle.metadata.ensembles[-1][1])


async def check_closed(
    scene: Scene, ledger_id: int, writers: Sequence[Writer], *, length_is_known: bool = True
) -> LedgerMetadata:
    """What must be true of a ledger that was closed, whoever closed it (docs/LEDGERS.md, "Invariants")."""
    metadata = await scene.metadata(ledger_id)
    assert metadata.state is LedgerState.CLOSED
    last = metadata.last_entry_id
    keys = [first for first, _ in metadata.ensembles]
    assert keys[0] == 0
    assert keys == sorted(set(keys)), "OnlyValidFragments: ensemble keys never go back"
    for writer in writers:
        assert max(writer.acked, default=-1) <= last, "NoDivergence: an acknowledged entry was truncated"
        assert writer.handle.last_add_confirmed <= last
    length = 0
    assert metadata.digest_type is not None
    codec = EntryCodec(ledger_id, metadata.digest_type, metadata.password or b"")
    for entry_id in range(last + 1):
        payload = check_entry(scene, metadata, codec, entry_id)
        written = {writer.payloads[entry_id] for writer in writers if entry_id in writer.payloads}
        assert not written or payload in written, "NoOutOfOrderEntries: the id has another's content"
        length += len(payload)
    assert metadata.length == length or not length_is_known
    return metadata


def check_entry(scene: Scene, metadata: LedgerMetadata, codec: EntryCodec, entry_id: int) -> bytes:
    """Checks AllCommittedEntriesReachAckQuorum, and that all bookies have the same content under the id. Returns the
    payload."""
    copies = scene.cluster.copies(metadata.ledger_id, entry_id)
    fragment = fragment_of(metadata, entry_id)
    holders = {fragment.members[i] for i in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)}
    assert len(holders & copies.keys()) >= metadata.ack_quorum, (entry_id, fragment, list(copies))
    payloads = {entry[codec.payload_offset :] for entry in copies.values()}
    assert len(payloads) == 1, f"entry {entry_id} has several contents"
    for entry in copies.values():
        codec.verify(entry, entry_id)
    return payloads.pop()
