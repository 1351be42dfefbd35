"""What a standalone server tells about its disk, and about auto-recovery, which it does not have."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.bookie.disks import DiskUsage
from tests.server.web.web_scene import SECONDS_MAX, TOPIC, Web, running


async def test_the_disk_is_told_in_the_form_of_bookkeeper_s_bookie(tmp_path: Path) -> None:
    async with running(tmp_path, diskUsageThreshold="0.9995", diskUsageLwmThreshold="0.999") as web:
        disk = await web.json("/api/v1/bookie/info")
        found = os.statvfs(tmp_path)
        assert disk["totalSpace"] == found.f_blocks * found.f_frsize
        assert disk["freeSpace"] == pytest.approx(found.f_bavail * found.f_frsize, rel=0.5)
        assert (disk["diskUsageThreshold"], disk["diskUsageLwmThreshold"]) == (0.9995, 0.999)
        assert disk["diskUsageWarnThreshold"] == 0.9
        assert disk["reservedSpace"] == 4 << 20
        assert disk["refusesWritesBecause"] is None
        assert (await web.json("/admin/v2/bookies/disks")).keys() == {"127.0.0.1:3181"}


async def test_a_bookie_that_refuses_writes_tells_why(tmp_path: Path) -> None:
    async with running(tmp_path, faultInjectionEnabled="true") as web:
        assert (await web.call("PUT", "/admin/v2/faults/full-disk", "true"))[0] == 204
        disk = await web.json("/api/v1/bookie/info")
        assert disk["refusesWritesBecause"] == "the bookie is read-only: the disk is 100.0% full"


async def test_one_bookie_has_nothing_to_recover_from(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        status, _, answer = await web.get("/admin/v2/bookies/autorecovery")
        assert (status, "nothing to recover from" in answer) == (404, True)


async def until_attention_is_asked_for(web: Web, sentence: str | None) -> None:
    """Returns when the overview of the console shows this sentence alone, or nothing for None. The overview is made
    anew once a second."""
    found: list[str] = ["not asked yet"]
    async with asyncio.timeout(SECONDS_MAX):
        while found != ([] if sentence is None else [sentence]):
            event = (await web.get("/admin/v2/broker-stats/live?events=1"))[2]
            found = json.loads(event.partition("data: ")[2])["attention"]


async def test_a_disk_that_is_nearly_full_is_told_before_it_refuses_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"diskUsageWarnThreshold": "0.8", "diskUsageThreshold": "0.95", "diskUsageLwmThreshold": "0.9"}
    short = "the disk is 82.5% full, and above 95.0% no message can be stored"
    async with running(tmp_path, **limits) as web:
        await web.publish(1)
        maintenance = web.server.bookie.maintenance
        await maintenance.measure_disks_by(lambda _: DiskUsage(1 << 40, 0.8))
        await until_attention_is_asked_for(web, None)
        caplog.clear()
        await maintenance.measure_disks_by(lambda _: DiskUsage(1 << 40, 0.825))
        await maintenance.check_disks()
        await until_attention_is_asked_for(web, f"Messages can soon not be stored: {short}")
        assert caplog.messages.count(f"room on the disk gets short: {short}") == 1
        reasons = (await web.json(f"/admin/v2/persistent/{TOPIC.partition('://')[2]}/why"))["producers"]["reasons"]
        assert [each["holdsBack"] for each in reasons if each["code"] == "STORAGE_SOON_FULL"] == ["nothing"]
        await maintenance.measure_disks_by(lambda _: DiskUsage(0, 0.97))
        full = "the bookie is read-only: the disk is 97.0% full"
        await until_attention_is_asked_for(web, f"Messages cannot be stored: {full}")


async def test_bookies_are_looked_up_where_bookies_register(tmp_path: Path) -> None:
    """With a bookkeeperMetadataServiceUri, that is not the broker's own store."""
    store = MemoryStore()
    await store.create(paths.bookie_path("10.0.0.5:3181"), b"", make_parents=True)
    await store.create(paths.bookie_path("10.0.0.6:3181", read_only=True), b"", make_parents=True)
    async with running(tmp_path) as web:
        web.server.bookkeeper.metadata = store
        bookies = (await web.json("/admin/v2/bookies/all"))["bookies"]
        assert [each["bookieId"] for each in bookies] == ["10.0.0.5:3181", "10.0.0.6:3181"]
        assert (await web.json("/admin/v2/bookies/disks")).keys() == {"10.0.0.5:3181", "10.0.0.6:3181"}
