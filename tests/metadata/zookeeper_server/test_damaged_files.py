"""A file that is not what was acknowledged stops the start, and an older one can be accepted on purpose."""

import asyncio
import errno
import re
import shutil
from pathlib import Path

import pytest

from magnetar.metadata.embedded.witness import FILE_NAME as WITNESS_NAME
from magnetar.metadata.embedded.witness import Witness
from magnetar.metadata.errors import StoreDamagedError, StoreFileError, StoreMismatchError
from magnetar.metadata.zookeeper_server.journal import FILE_NAME
from magnetar.metadata.zookeeper_server.node_rules import new_node
from magnetar.metadata.zookeeper_server.processor import EPOCH
from magnetar.metadata.zookeeper_server.server_settings import ZooKeeperSettings
from magnetar.metadata.zookeeper_server.stored_records import zxid_row
from magnetar.metadata.zookeeper_server.zookeeper_server import ZooKeeperServer
from tests.metadata.recorder import DEADLINE_SECONDS

SETTINGS = ZooKeeperSettings()


async def write(folder: Path, path: bytes, zxid: int) -> None:
    """Makes one record durable and closes the file in order."""
    server = await ZooKeeperServer.open(str(folder), SETTINGS)
    done = asyncio.Event()
    rows = {path: new_node(b"x" * 200, zxid=zxid, now_ms=1), **dict((zxid_row(zxid),))}
    server.journal.commit(rows, done.set)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await done.wait()
    await server.close()


async def test_what_was_written_is_there_and_the_numbers_go_on(tmp_path: Path) -> None:
    await write(tmp_path, b"/a", 5)
    server = await ZooKeeperServer.open(str(tmp_path), SETTINGS)
    assert server.processor.tree.find(b"/a") is not None
    assert server.processor.zxid == 5
    await server.close()


async def test_a_lost_witness_a_lost_file_and_a_changed_byte_stop_the_start(tmp_path: Path) -> None:
    await write(tmp_path, b"/a", 5)
    for name, expected in ((WITNESS_NAME, "is missing: is the disk of"), (FILE_NAME, "is missing, and")):
        (tmp_path / name).rename(tmp_path / "aside")
        with pytest.raises(StoreMismatchError, match=expected):
            await ZooKeeperServer.open(str(tmp_path), SETTINGS)
        (tmp_path / "aside").rename(tmp_path / name)
    file = tmp_path / FILE_NAME
    sound = file.read_bytes()
    place = sound.index(b"x" * 200)
    file.write_bytes(sound[:place] + b"y" + sound[place + 1 :])
    with pytest.raises(StoreDamagedError, match="record /a is not as it was written"):
        await ZooKeeperServer.open(str(tmp_path), SETTINGS)
    file.write_bytes(sound)
    await write(tmp_path, b"/b", 6)


async def test_an_old_copy_is_refused_and_can_be_accepted_by_its_number(tmp_path: Path) -> None:
    await write(tmp_path, b"/a", 5)
    shutil.copy(tmp_path / FILE_NAME, tmp_path / "copy")
    await write(tmp_path, b"/b", 6)
    await write(tmp_path, b"/c", 7)
    (tmp_path / "copy").rename(tmp_path / FILE_NAME)
    with pytest.raises(StoreFileError, match="is older than what was acknowledged") as refused:
        await ZooKeeperServer.open(str(tmp_path), SETTINGS)
    named = re.search(r"acceptMetadataGeneration=(\d+)", str(refused.value))
    assert named is not None
    server = await ZooKeeperServer.open(str(tmp_path), SETTINGS, accepted_generation=int(named[1]))
    assert server.processor.tree.find(b"/a") is not None
    assert server.processor.tree.find(b"/b") is None
    assert server.processor.zxid == EPOCH, "clients that have seen later transactions are taken again"
    await server.processor.drained()
    await server.close()
    server = await ZooKeeperServer.open(str(tmp_path), SETTINGS)
    assert server.processor.zxid == EPOCH
    await server.close()


async def test_after_a_start_that_could_not_write_the_witness_the_next_one_finds_the_file_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(witness: Witness, seal: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Witness, "begin", refuse)
        with pytest.raises(StoreFileError, match="cannot be written") as kept:  # Its frames keep the opened file alive.
            await ZooKeeperServer.open(str(tmp_path), SETTINGS)
    await write(tmp_path, b"/a", 5)
    del kept
