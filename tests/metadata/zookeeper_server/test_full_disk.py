"""On a full disk the server lives on the room of its reserve: sessions and small changes go on."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.harness import wait_until
from compat_tests.small_disk import SmallDisk, small_disk
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.bookie.reserve import FILE_NAME
from tests.metadata.zookeeper.own_server import OwnServer, running

pytestmark = pytest.mark.process

DISK_MEBIBYTES = 64
RECORDS = 300
RECORD_BYTES = 1000
MORE_THAN_THE_RESERVE = 6000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_MEBIBYTES) as mounted:
        yield mounted


@pytest.fixture
def server(tmp_path: Path, disk: SmallDisk) -> Iterator[OwnServer]:
    with running(tmp_path, OwnServer, f"dataDir={disk.folder}\n") as one:
        yield one


def has_reserve(disk: SmallDisk) -> bool:
    reserve = disk.folder / FILE_NAME
    return reserve.exists() and reserve.stat().st_size > 0


async def write(server: OwnServer, prefix: str, count: int, deadline_seconds: float = 60.0) -> None:
    """Makes records in a session of its own. Raises MetadataError or TimeoutError."""
    async with asyncio.timeout(deadline_seconds):
        store = await ZooKeeperStore.open(server.address)
        try:
            for number in range(count):
                await store.create(f"/{prefix}{number}", bytes(RECORD_BYTES))
        finally:
            await store.close()


@pytest.mark.parametrize("end", [OwnServer.kill, OwnServer.terminate], ids=["killed", "stopped"])
def test_sessions_and_changes_go_on_before_and_after_a_restart(
    server: OwnServer, disk: SmallDisk, end: Callable[[OwnServer], object]
) -> None:
    wait_until(lambda: has_reserve(disk), "the reserve is allocated")
    disk.fill()
    asyncio.run(write(server, "a", RECORDS))
    assert not has_reserve(disk)
    end(server)
    server.launch()
    asyncio.run(server.ready())
    asyncio.run(write(server, "b", RECORDS))
    assert "were free: the " in server.log()
    assert "writes wait" not in server.log()
    disk.empty()
    wait_until(lambda: has_reserve(disk), "the reserve is whole again")


@pytest.mark.slow
def test_changes_beyond_the_reserve_wait_for_room(server: OwnServer, disk: SmallDisk) -> None:
    wait_until(lambda: has_reserve(disk), "the reserve is allocated")
    disk.fill()
    with pytest.raises((MetadataError, TimeoutError)):
        asyncio.run(write(server, "a", MORE_THAN_THE_RESERVE, deadline_seconds=10.0))
    assert "writes wait until there is room" in server.log()
    disk.empty()
    asyncio.run(write(server, "b", 1))
    wait_until(lambda: has_reserve(disk), "the reserve is whole again")
