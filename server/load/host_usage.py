"""Measures how much of its machine this broker's host or container uses.

A measurement reads a dozen small files of /proc and /sys. On systems other than Linux these files are missing, and only
the event loop's own time is known. Source: LinuxBrokerHostUsageImpl.
"""

import os
import time
from pathlib import Path

import aiofiles
import aiofiles.os

from magnetar.server.load import host_usage_rules as rules
from magnetar.server.load.broker_report import BrokerUsage
from magnetar.server.load.host_usage_rules import Interface, Reading

INTERFACES_MAX = 64
"""How many network interfaces are examined at most. A host of containers may have thousands of virtual interfaces."""


class HostUsage:
    """Measures the usage since the previous measurement. All calls are made on the event loop's thread, because the
    processor time of this thread is measured, too."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before: Reading | None = None
        self.last = BrokerUsage()
        """The result of the last measurement."""

    async def measure(self, nic_speed_gbps: float = 0) -> BrokerUsage:
        """Returns the usage since the last call. The first call returns limits only, because a usage needs two
        readings."""
        now = await self._read()
        self.last = rules.usage_between(self._before or now, now, nic_speed_gbps)
        self._before = now
        return self.last

    async def _read(self) -> Reading:
        busy, cores = await self._processors()
        used = rules.memory_mb(await self._text("proc/self/status"), "VmRSS")
        return Reading(
            at_s=time.monotonic(),
            cpu_busy_s=busy,
            loop_busy_s=time.thread_time(),
            cores=cores,
            memory_used_mb=used or 0.0,
            memory_limit_mb=await self._memory_limit_mb(),
            interfaces=await self._interfaces(),
        )

    async def _processors(self) -> tuple[float, float]:
        """Returns the used processor time and the number of processors, of the container if there is one, otherwise of
        the machine."""
        cores = float(os.cpu_count() or 1)
        cgroup = "sys/fs/cgroup"
        busy = rules.cgroup_v2_busy_s(await self._text(f"{cgroup}/cpu.stat"))
        if busy is not None:
            return busy, rules.cgroup_v2_cores(await self._text(f"{cgroup}/cpu.max")) or cores
        nanos = rules.number_in(await self._text(f"{cgroup}/cpu/cpuacct.usage"))
        if nanos is not None:
            quota = await self._text(f"{cgroup}/cpu/cpu.cfs_quota_us")
            period = await self._text(f"{cgroup}/cpu/cpu.cfs_period_us")
            return nanos / 1e9, rules.cgroup_v1_cores(quota, period) or cores
        host = rules.host_busy_s(await self._text("proc/stat"), os.sysconf("SC_CLK_TCK"))
        return (time.process_time() if host is None else host), cores

    async def _memory_limit_mb(self) -> float:
        total = rules.memory_mb(await self._text("proc/meminfo"), "MemTotal") or 0.0
        for name in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
            limit = rules.number_in(await self._text(name))
            if limit is not None and 0 < limit / rules.MB < total:
                return limit / rules.MB
        return total

    async def _interfaces(self) -> tuple[Interface, ...]:
        folder = self._root / "sys/class/net"
        try:
            names = sorted(await aiofiles.os.listdir(folder))[:INTERFACES_MAX]
        except OSError:
            return ()
        found = [await self._interface(name) for name in names]
        return tuple(each for each in found if each is not None)

    async def _interface(self, name: str) -> Interface | None:
        place = f"sys/class/net/{name}"
        real = os.path.realpath(self._root / place)
        if not rules.counts(real, await self._text(f"{place}/type"), await self._text(f"{place}/operstate")):
            return None
        speed = rules.number_in(await self._text(f"{place}/speed"))
        return Interface(
            rules.number_in(await self._text(f"{place}/statistics/rx_bytes")) or 0,
            rules.number_in(await self._text(f"{place}/statistics/tx_bytes")) or 0,
            -1.0 if speed is None else float(speed),
        )

    async def _text(self, name: str) -> str | None:
        try:
            async with aiofiles.open(self._root / name) as file:
                return await file.read()
        except (OSError, UnicodeDecodeError):
            return None
