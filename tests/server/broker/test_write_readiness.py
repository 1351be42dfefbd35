"""What probes are told while no write can be served: by a fault that only a restart ends, and by a full disk."""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar.metadata.embedded import witness
from magnetar.metadata.embedded.record_file import RecordFile
from magnetar.storage.bookie import durable_file
from magnetar.storage.bookie.disks import DiskUsage
from tests.server.web.web_scene import Web, running

STATUS, READY, HEALTH = "/status.html", "/admin/v2/brokers/ready", "/admin/v2/brokers/health"
TENANT = "/admin/v2/tenants/{}"
ROOM, NO_ROOM = DiskUsage(1 << 40, 0.1), DiskUsage(0, 1.0)


def fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def fail_in_sqlite(*_: object) -> None:
    raise sqlite3.OperationalError("disk I/O error")


class NoRoomError(sqlite3.OperationalError):
    sqlite_errorname = "SQLITE_FULL"


def no_room(*_: object) -> None:
    raise NoRoomError("database or disk is full")


async def make_tenant(web: Web, name: str) -> int:
    status, _ = await web.call("PUT", TENANT.format(name), '{"allowedClusters": ["standalone"]}')
    return status


async def write_metadata(web: Web) -> None:
    assert await make_tenant(web, "t1") >= 500


async def write_a_message(web: Web) -> None:
    status, _, _ = await web.get(HEALTH)
    assert status == 503


@pytest.mark.parametrize(
    ("owner", "name", "fault", "write", "part"),
    [
        (witness, "_sync_data", fail, write_metadata, "metadataWitness"),
        (RecordFile, "write", fail_in_sqlite, write_metadata, "metadata.sqlite"),
        (durable_file, "_sync_data", fail, write_a_message, ".journal"),
    ],
)
async def test_after_a_failed_sync_every_page_says_503_and_the_server_says_why_it_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    fault: Callable[..., None],
    write: Callable[[Web], "asyncio.Future[None]"],
    part: str,
) -> None:
    async with running(tmp_path) as web:
        for page in (STATUS, READY, HEALTH):
            assert (await web.get(page))[0] == 200
        ended = asyncio.ensure_future(web.server.failed())
        monkeypatch.setattr(owner, name, fault)
        await write(web)
        monkeypatch.undo()
        for page in (STATUS, READY, HEALTH):
            status, _, body = await web.get(page)
            assert status == 503, page
            assert part in body, page
        async with asyncio.timeout(20):
            assert part in await ended


async def test_on_a_full_disk_of_the_bookie_reads_go_on_and_readiness_comes_back_with_room(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert (await web.get(HEALTH))[0] == 200
        web.server.bookie.room_seen(NO_ROOM)
        for page in (READY, HEALTH):
            status, _, body = await web.get(page)
            assert (status, "100.0% full" in body) == (503, True)
        assert (await web.get(STATUS))[0] == 200
        web.server.bookie.room_seen(ROOM)
        for page in (STATUS, READY, HEALTH):
            assert (await web.get(page))[0] == 200


async def test_on_a_full_disk_of_the_metadata_readiness_comes_back_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as web:
        with monkeypatch.context() as patch:
            patch.setattr(RecordFile, "write", no_room)
            looked = asyncio.Event()
            loop = asyncio.get_running_loop()

            def look(_: RecordFile) -> None:
                loop.call_soon_threadsafe(looked.set)
                no_room()

            patch.setattr(RecordFile, "try_to_write", look)
            assert await make_tenant(web, "t1") >= 500
            async with asyncio.timeout(20):
                await looked.wait()
            status, _, body = await web.get(READY)
            assert status == 503
            assert "metadata.sqlite: writes fail until there is room" in body
            assert (await web.get(STATUS))[0] == 200
            assert (await web.get("/admin/v2/tenants"))[0] == 200
        async with asyncio.timeout(20):
            while (await web.get(READY))[0] != 200:
                pass
        assert await make_tenant(web, "t2") == 204
