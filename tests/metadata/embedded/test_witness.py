"""The witness tells metadata that went back in time from metadata that a crash left."""

import errno
import itertools
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from magnetar.metadata.embedded import witness as witness_module
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.file_format import RecordTotals
from magnetar.metadata.embedded.stored_metadata import PAGE_BYTES, StoredMetadata, mismatch
from magnetar.metadata.embedded.witness import SLOT_BYTES, Seal, Witness, WitnessDamagedError
from magnetar.metadata.errors import StoreClosedError, StoreDamagedError, StoreFileError, StoreMismatchError
from magnetar.metadata.tree_rules import Tree

ME, OTHER = b"m" * 16, b"o" * 16
FRAME_BYTES = 24 + PAGE_BYTES


def stored(generation: int, identity: bytes = ME, layout: int = 2) -> StoredMetadata[Tree]:
    return StoredMetadata("/d/metadata.sqlite", Tree(), RecordTotals(1, 0), layout, Seal(identity, generation), b"")


@pytest.mark.parametrize(
    ("file", "seen", "reason"),
    [
        (stored(5), Seal(ME, 5), None),
        (stored(6), Seal(ME, 5), None),
        (stored(7), Seal(ME, 5), "newer"),
        (stored(4), Seal(ME, 5), "older"),
        (stored(0, b"", layout=1), Seal(ME, 5), "older"),
        (stored(5, OTHER), Seal(ME, 5), "another server's"),
        (stored(6, OTHER), Seal(ME, 5), "another server's"),
        (stored(5), None, "missing: is the disk of /l not mounted"),
        (stored(0), None, None),
        (stored(0, b"", layout=0), None, None),
        (stored(0, b"", layout=0), Seal(ME, 5), "is missing"),
        (stored(0, b"", layout=0), Seal(ME, 0), "is missing"),
    ],
)
def test_a_file_fits_its_witness_when_it_is_at_most_one_commit_ahead(
    file: StoredMetadata[Tree], seen: Seal | None, reason: str | None
) -> None:
    found = mismatch(file, seen, "/l/metadataWitness")
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_the_layout_of_a_slot_is_pinned(tmp_path: Path) -> None:
    witness = Witness(str(tmp_path / "w"))
    witness.begin(Seal(bytes(range(16)), 258))
    witness.close()
    data = (tmp_path / "w").read_bytes()
    assert len(data) == 2 * SLOT_BYTES
    expected = "4d47575400000001000102030405060708090a0b0c0d0e0f0000000000000102"
    assert data[:32].hex() == expected
    assert data[36:SLOT_BYTES] == bytes(SLOT_BYTES - 36)
    assert data[:SLOT_BYTES] == data[SLOT_BYTES:]


def test_whatever_a_power_loss_leaves_of_a_write_the_seal_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "w"
    witness = Witness(str(path))
    witness.begin(Seal(ME, 7))
    rng = random.Random(1)
    for generation in range(8, 40):
        before = path.read_bytes()
        witness.save(Seal(ME, generation))
        after = path.read_bytes()
        changed = [offset for offset in range(len(after)) if after[offset] != before[offset]]
        for _ in range(20):
            torn = bytearray(before)
            for offset in rng.sample(changed, rng.randrange(len(changed) + 1)):
                torn[offset] = after[offset]
            path.write_bytes(torn)
            assert Witness(str(path)).read() in (Seal(ME, generation - 1), Seal(ME, generation))
        path.write_bytes(after)
        assert Witness(str(path)).read() == Seal(ME, generation)
    witness.close()


def test_a_witness_without_a_whole_slot_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "w"
    for content in (b"", b"x" * 100, bytes(2 * SLOT_BYTES)):
        path.write_bytes(content)
        with pytest.raises(WitnessDamagedError, match=str(path)):
            Witness(str(path)).read()
    path.unlink()
    assert Witness(str(path)).read() is None


class Place:
    """The files of a store and its witness, which tests copy and damage, and from which they start the store again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.path = folder / "metadata.sqlite"
        self.log = folder / "metadata.sqlite-wal"
        self.witness = Witness(str(folder / "witness"))

    async def start(self, accepted_generation: int | None = None) -> EmbeddedStore:
        read = await EmbeddedStore.read(self.path, self.witness, accepted_generation)
        store = await EmbeddedStore.start(read, self.witness)
        await store.begin_witness(self.witness)
        return store

    def copy(self, name: str) -> "Place":
        shutil.copytree(self.folder, self.folder.parent / name)
        return Place(self.folder.parent / name)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


async def test_every_acknowledged_commit_was_seen_by_the_witness(tmp_path: Path) -> None:
    place = Place(tmp_path / "a")
    store = await place.start()
    for number in range(300):
        await store.create(f"/{number}")
        seen = place.witness.read()
        assert seen is not None
        assert seen.generation == number + 1
    await store.close()
    again = await EmbeddedStore.read(place.path, place.witness)
    assert again.seal == seen


async def test_a_crash_between_commit_and_witness_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "a")
    store = await place.start()
    await store.create("/seen")

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Witness, "save", lambda witness, seal: broken(0))
        with pytest.raises(StoreClosedError):
            await store.create("/unseen")
    crashed = place.copy("crashed")
    await store.close()
    store = await crashed.start()
    assert await store.children("/") == ["seen", "unseen"]
    seen = crashed.witness.read()
    assert seen is not None
    assert seen.generation == 2, "what a reader may see now must not be lost unseen"
    await store.create("/more")
    await store.close()


async def test_a_start_makes_the_log_durable_before_the_witness_has_seen_it(
    crashed: tuple[Place, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed process left may be in the kernel's memory only, not on the disk."""
    place, _ = crashed
    log = place.log.stat().st_ino
    order: list[str] = []
    sync, save = os.fsync, Witness.save

    def synced(fd: int) -> None:
        sync(fd)
        if os.fstat(fd).st_ino == log:
            order.append("log")

    def saved(witness: Witness, seal: Seal) -> None:
        order.append("witness")
        save(witness, seal)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Witness, "save", saved)
    store = await place.start()
    assert order == ["log", "witness"]
    await store.close()


async def test_a_failed_sync_of_the_witness_ends_all_writes_and_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "a")
    store = await place.start()
    faults: list[str | None] = []
    store.on_fault = lambda: faults.append(store.fault)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(witness_module, "_sync_data", broken)
    for _ in range(2):
        with pytest.raises(StoreClosedError, match="witness"):
            await store.create("/a")
    assert len(faults) == 1
    assert place.witness.path in str(faults[0])
    await store.close()


@pytest.fixture
async def crashed(tmp_path: Path) -> tuple[Place, list[str]]:
    """Returns what SIGKILL leaves after twenty commits: most of them in the file, some in the log."""
    place = Place(tmp_path / "image")
    store = await place.start()
    names = [f"{number:02d}" for number in range(20)]
    for name in names:
        await store.create(f"/{name}", name.encode() * 500)
    image = place.copy("crashed")
    await store.close()
    shutil.rmtree(place.folder)
    return image, names


async def outcome(place: Place, names: list[str]) -> str:
    """Returns "whole" when the store starts with every record, else the text of the refusal. A refusal may change
    nothing."""
    before = place.content()
    try:
        store = await place.start()
    except StoreFileError as error:
        refusal = error
    else:
        assert await store.children("/") == names
        await store.close()
        return "whole"
    assert place.content() == before, "a refused start changed a file"
    assert refusal.path in (str(place.path), str(place.log))
    return str(refusal)


async def test_a_log_that_was_damaged_in_any_way_is_refused_or_harmless(crashed: tuple[Place, list[str]]) -> None:
    place, names = crashed
    sound = place.content()
    log = sound[place.log.name]
    rng = random.Random(13)
    refused = 0
    for number in range(80):
        data = bytearray(log)
        kind = ("flip", "cut", "zero", "last frame")[number % 4]
        offset = rng.randrange(len(data))
        if kind == "flip":
            data[offset] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del data[offset:]
        elif kind == "zero":
            data[offset : offset + 512] = bytes(len(data[offset : offset + 512]))
        else:
            data[-1 - rng.randrange(FRAME_BYTES)] ^= 0xFF
        for name, content in sound.items():
            (place.folder / name).write_bytes(content)
        place.log.write_bytes(data)
        result = await outcome(place, names)
        # Bytes behind the last commit do not count, and this log has none.
        assert result != "whole" or bytes(data) == log, f"{kind} at {offset} went unseen"
        refused += result != "whole"
    assert refused > 60


@pytest.mark.parametrize("harm", ["empty", "delete", "zeros"])
async def test_a_log_that_is_gone_is_refused_and_starts_when_it_is_put_back(
    crashed: tuple[Place, list[str]], harm: str
) -> None:
    place, names = crashed
    log = place.log.read_bytes()
    if harm == "delete":
        place.log.unlink()
    else:
        place.log.write_bytes(b"" if harm == "empty" else bytes(len(log)))
    assert "older than what the bookie holds" in await outcome(place, names)
    place.log.write_bytes(log)
    assert await outcome(place, names) == "whole"


async def test_old_copies_in_every_combination_are_refused_or_right(tmp_path: Path) -> None:
    place = Place(tmp_path / "a")
    store = await place.start()
    images = []
    for round_number in range(4):
        for number in range(5):
            await store.create(f"/{round_number}-{number}", bytes(3000))
        images.append(place.copy(f"old-{round_number}").content())
    await store.close()
    names = [f"{round_number}-{number}" for round_number in range(4) for number in range(5)]
    victim = Place(tmp_path / "victim")
    refused = 0
    for file, log, seen in itertools.product(range(4), (None, 0, 1, 2, 3), range(4)):
        shutil.rmtree(victim.folder)
        victim = Place(victim.folder)
        victim.path.write_bytes(images[file][place.path.name])
        (victim.folder / "witness").write_bytes(images[seen]["witness"])
        if log is not None:
            victim.log.write_bytes(images[log][place.log.name])
        result = await outcome(victim, names[: 5 * (seen + 1)])
        assert result == "whole" or not file == log == seen, result
        refused += result != "whole"
    assert refused > 60


async def test_the_file_of_another_server_is_refused(tmp_path: Path) -> None:
    places = [Place(tmp_path / name) for name in "ab"]
    for place in places:
        store = await place.start()
        for number in range(7):
            await store.create(f"/{place.folder.name}-{number}")
        await store.close()
    shutil.copy(places[0].path, places[1].path)
    with pytest.raises(StoreMismatchError, match="another server's"):
        await places[1].start()


async def test_what_was_accepted_starts_from_then_on_and_never_passes_for_the_other_history(
    crashed: tuple[Place, list[str]],
) -> None:
    place, names = crashed
    right = place.copy("right")
    place.log.unlink()
    with pytest.raises(StoreMismatchError, match="acceptMetadataGeneration=") as refused:
        await place.start()
    generation = int(str(refused.value).partition("acceptMetadataGeneration=")[2].partition(":")[0])
    with pytest.raises(StoreMismatchError):
        await place.start(generation + 1)
    store = await place.start(generation)
    kept = await store.children("/")
    assert kept == names[: len(kept)]
    for number in range(100):
        await store.create(f"/new-{number}")
    await store.close()
    store = await place.start()
    assert len(await store.children("/")) == len(kept) + 100
    await store.close()
    for file in (right.path, right.log):
        shutil.copy(file, place.folder)
    with pytest.raises(StoreMismatchError):
        await place.start()


async def test_a_log_that_is_damaged_in_the_middle_may_be_given_up_from_there_on(
    crashed: tuple[Place, list[str]],
) -> None:
    place, names = crashed
    data = bytearray(place.log.read_bytes())
    data[len(data) // 2] ^= 1
    place.log.write_bytes(data)
    with pytest.raises(StoreDamagedError, match=r"at offset [0-9]+.*acceptMetadataGeneration=") as refused:
        await place.start()
    generation = int(str(refused.value).partition("acceptMetadataGeneration=")[2].partition(":")[0])
    store = await place.start(generation)
    kept = await store.children("/")
    assert kept == names[: len(kept)]
    assert generation == len(kept) > 0
    await store.close()
    aside = place.folder / "metadata.sqlite-wal-set-aside"
    assert aside.read_bytes() == data


async def test_a_file_of_the_first_layout_is_upgraded_and_witnessed(tmp_path: Path) -> None:
    place = Place(tmp_path / "a")
    store = await EmbeddedStore.open(place.path)
    await store.create("/old", b"kept")
    await store.close()
    downgrade(place.path)
    store = await place.start()
    record = await store.get("/old")
    assert record is not None
    assert record.value == b"kept"
    await store.create("/new")
    await store.close()
    assert place.witness.read() == (await EmbeddedStore.read(place.path)).seal
    again = await place.start()
    assert await again.children("/") == ["new", "old"]
    await again.close()


def downgrade(path: Path) -> None:
    """Turns the file of a store into one of layout 1."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "ALTER TABLE meta DROP COLUMN identity; ALTER TABLE meta DROP COLUMN generation; PRAGMA user_version = 1;"
    )
    connection.close()


def test_a_witness_that_is_begun_saved_and_closed_leaves_no_descriptor(tmp_path: Path) -> None:
    before = os.listdir("/dev/fd")
    witness = Witness(str(tmp_path / "w"))
    for generation in range(3):
        witness.begin(Seal(ME, generation))
        witness.save(Seal(ME, generation + 1))
    witness.close()
    assert len(os.listdir("/dev/fd")) == len(before)
