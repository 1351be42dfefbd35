"""SIGKILL at any moment: afterwards the file opens and holds what was acknowledged, without ephemeral records."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.stored_metadata import PAGE_BYTES
from magnetar.metadata.errors import StoreDamagedError, StoreFileError, StoreLockedError
from tests.metadata.embedded.crash_writer import WRITERS, open_witnessed, value_of

ROOT = Path(__file__).parents[3]
FRAME_BYTES = 24 + PAGE_BYTES


def run_until_killed(path: Path, first: int, acknowledged_lines: int) -> list[str]:
    """Starts the writer, kills it after so many acknowledgements, and returns all that it said."""
    command = [sys.executable, "-m", "tests.metadata.embedded.crash_writer", str(path), str(first)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(acknowledged_lines)]
        child.kill()
        lines += child.stdout.readlines()
    return [line.strip() for line in lines if line.endswith("\n")]


@pytest.mark.process
async def test_sigkill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    created: set[int] = set()
    deleted: set[int] = set()
    for round_number, acknowledgements in enumerate((1, 150, 700)):
        for line in run_until_killed(path, round_number * 1_000_000, acknowledgements):
            (created if line[0] == "+" else deleted).add(int(line[1:]))
        store = await open_witnessed(str(path))
        assert await store.children("/") == ["n"], "an ephemeral record outlived its process"
        names = {int(name) for name in await store.children("/n")}
        assert created - deleted - names <= {number for number in created if number % 5 == 0}
        assert not {number for number in created - names if number % 5}
        assert not deleted & names
        assert len(names - created) <= WRITERS * (round_number + 1), "more than what was under way when it was killed"
        for number in names:
            record = await store.get(f"/n/{number}")
            assert record is not None
            assert record.value == value_of(number)
        await store.close()


@pytest.fixture
async def crash_image(tmp_path: Path) -> tuple[Path, list[str]]:
    """Returns file and log as a crash leaves them, and the names of the records that were written, one commit each."""
    path = tmp_path / "store" / "metadata.sqlite"
    path.parent.mkdir()
    store = await EmbeddedStore.open(path)
    names = [f"record-{number:02d}" for number in range(9)]
    for name in names:
        await store.create(f"/{name}", name.encode() * 20)
    image = tmp_path / "image" / "metadata.sqlite"
    shutil.copytree(path.parent, image.parent)
    await store.close()
    return image, names


def spread_offsets(size: int) -> Iterator[int]:
    """Gives the offsets of every frame's header bytes and of some bytes of its page."""
    yield from range(0, 32, 5)
    for frame in range(32, size, FRAME_BYTES):
        yield from range(frame, frame + 24, 7)
        yield from range(frame + 24, frame + FRAME_BYTES, 1301)


async def open_or_fault(path: Path) -> EmbeddedStore | StoreFileError:
    try:
        return await EmbeddedStore.open(path)
    except StoreFileError as fault:
        return fault


async def test_a_damaged_log_is_refused_unless_only_its_last_commit_is_hurt(
    crash_image: tuple[Path, list[str]],
) -> None:
    image, names = crash_image
    log_path = Path(f"{image}-wal")
    files = {file: file.read_bytes() for file in image.parent.iterdir()}
    sound = files[log_path]
    refused = cut = 0
    for offset in spread_offsets(len(sound)):
        for file, data in files.items():
            file.write_bytes(data)
        damaged = bytearray(sound)
        damaged[offset] ^= 0x10
        log_path.write_bytes(damaged)
        store = await open_or_fault(image)
        if isinstance(store, StoreFileError):
            assert isinstance(store, StoreDamagedError)
            assert store.path == str(log_path)
            assert log_path.read_bytes() == damaged, "the evidence was changed"
            refused += 1
            continue
        kept = await store.children("/")
        await store.close()
        assert kept in (names, names[:-1]), f"byte {offset} of the log: {len(names) - len(kept)} commits lost silently"
        cut += kept != names
    assert refused > 5 * cut > 0


async def test_a_torn_log_is_cut_back_to_the_last_whole_commit(crash_image: tuple[Path, list[str]]) -> None:
    image, names = crash_image
    log_path = Path(f"{image}-wal")
    files = {file: file.read_bytes() for file in image.parent.iterdir()}
    seen = set()
    for size in range(0, len(files[log_path]) + 1, FRAME_BYTES // 3):
        for file, data in files.items():
            file.write_bytes(data)
        log_path.write_bytes(files[log_path][:size])
        store = await EmbeddedStore.open(image)
        kept = await store.children("/")
        await store.close()
        assert kept == names[: len(kept)]
        seen.add(len(kept))
    assert len(seen) > len(names) // 2


async def test_a_damaged_file_is_refused_by_name_and_never_read_differently(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    writer = await EmbeddedStore.open(path)
    expected = {f"/p{number % 3}/record-{number}": f"value {number}".encode() * 8 for number in range(150)}
    for record_path, value in expected.items():
        await writer.create(record_path, value, make_parents=True)
    await writer.close()
    sound = path.read_bytes()
    refused = 0
    for offset in range(0, len(sound), 389):
        damaged = bytearray(sound)
        damaged[offset] ^= 0x81
        path.write_bytes(damaged)
        store = await open_or_fault(path)
        if isinstance(store, StoreFileError):
            assert str(path) in str(store)
            assert not isinstance(store, StoreLockedError)
            assert path.read_bytes() == damaged, "the evidence was changed"
            refused += 1
            continue
        for record_path, value in expected.items():
            record = await store.get(record_path)
            assert record is not None, f"byte {offset}: {record_path} is gone"
            assert record.value == value, f"byte {offset}: {record_path} reads differently"
        await store.close()
    assert refused > 12


async def test_a_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    store = await EmbeddedStore.open(path)
    for number in range(100):
        await store.create(f"/record-{number}", bytes(300))
    await store.close()
    path.write_bytes(path.read_bytes()[: 5 * PAGE_BYTES])
    with pytest.raises(StoreDamagedError, match=str(path)):
        await EmbeddedStore.open(path)
