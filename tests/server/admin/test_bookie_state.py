"""What a standalone server tells about its disk, and about auto-recovery, which it does not have."""

import os
from pathlib import Path

import pytest

from tests.server.web.web_scene import running


async def test_the_disk_is_told_in_the_form_of_bookkeeper_s_bookie(tmp_path: Path) -> None:
    async with running(tmp_path, diskUsageThreshold="0.9995", diskUsageLwmThreshold="0.999") as web:
        disk = await web.json("/api/v1/bookie/info")
        found = os.statvfs(tmp_path)
        assert disk["totalSpace"] == found.f_blocks * found.f_frsize
        assert disk["freeSpace"] == pytest.approx(found.f_bavail * found.f_frsize, rel=0.5)
        assert (disk["diskUsageThreshold"], disk["diskUsageLwmThreshold"]) == (0.9995, 0.999)
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
