"""What a broker's host is said to use, by the files of Linux."""

from pathlib import Path

import psutil
import pytest

from magnetar.server.load.host_usage import HostUsage
from magnetar.server.load.host_usage_rules import (
    Interface,
    Reading,
    cgroup_v1_cores,
    cgroup_v2_busy_s,
    cgroup_v2_cores,
    counts,
    host_busy_s,
    memory_mb,
    usage_between,
)

BEFORE = Reading(100.0, 50.0, 10.0, 4.0, 500, 8000, (Interface(0, 0, 1000), Interface(5, 5, 1000)))


def test_the_processors_of_the_container_or_the_loop_s_thread_whichever_is_fuller() -> None:
    idle_loop = Reading(110.0, 70.0, 11.0, 4.0, 500, 8000)
    assert usage_between(BEFORE, idle_loop).cpu.usage == pytest.approx(200), "half of four cores"
    busy_loop = Reading(110.0, 70.0, 19.0, 4.0, 500, 8000)
    usage = usage_between(BEFORE, busy_loop)
    assert usage.cpu.usage == pytest.approx(360), "the loop works nine seconds of ten: the broker is nearly full"
    assert usage.cpu.limit == 400


def test_bandwidth_is_told_in_kbit_and_limits_follow_from_the_speed() -> None:
    now = Reading(110.0, 50.0, 10.0, 4.0, 500, 8000, (Interface(1_250_000, 0, 1000), Interface(5, 2_500_005, 1000)))
    usage = usage_between(BEFORE, now)
    assert usage.bandwidth_in.usage == pytest.approx(1000)
    assert usage.bandwidth_out.usage == pytest.approx(2000)
    assert usage.bandwidth_in.limit == 2_000_000
    assert usage_between(BEFORE, now, nic_speed_gbps=10).bandwidth_in.limit == 20_000_000


def test_a_speed_that_nobody_knows_never_makes_a_broker_full() -> None:
    now = Reading(110.0, 50.0, 10.0, 4.0, 500, 8000, (Interface(10**12, 10**12, -1),))
    usage = usage_between(Reading(100.0, 50.0, 10.0, 4.0, 500, 8000, (Interface(0, 0, -1),)), now)
    assert usage.bandwidth_in.limit == -1000
    assert usage.bandwidth_in.fraction == 0


def test_readings_of_one_moment_or_counters_that_went_back_are_no_usage() -> None:
    assert usage_between(BEFORE, BEFORE).cpu.usage == 0
    assert usage_between(BEFORE, Reading(110.0, 1.0, 1.0, 4.0, 1, 1)).cpu.usage == 0


def test_the_files_of_control_groups() -> None:
    assert cgroup_v2_busy_s("usage_usec 2500000\nuser_usec 1\n") == 2.5
    assert cgroup_v2_busy_s("nonsense") is None
    assert cgroup_v2_cores("150000 100000\n") == 1.5
    assert cgroup_v2_cores("max 100000\n") is None
    assert cgroup_v1_cores("50000\n", "100000\n") == 0.5
    assert cgroup_v1_cores("-1\n", "100000\n") is None
    assert cgroup_v1_cores(None, None) is None


def test_the_files_of_proc() -> None:
    stat = "cpu  100 20 30 1000 40 5 6 7 0 0\ncpu0 1 2 3\n"
    assert host_busy_s(stat, 100) == pytest.approx((100 + 20 + 30 + 5 + 6 + 7) / 100)
    assert host_busy_s("", 100) is None
    assert host_busy_s("cpu a b c d e", 100) is None
    assert memory_mb("MemTotal:        2048 kB\nMemFree: 1 kB\n", "MemTotal") == 2
    assert memory_mb("MemTotal: many\n", "MemTotal") is None


def test_only_physical_interfaces_that_are_up_count() -> None:
    assert counts("/sys/devices/pci0000:00/net/eth0", "1\n", "up\n")
    assert not counts("/sys/devices/virtual/net/docker0", "1\n", "up\n")
    assert not counts("/sys/devices/pci0000:00/net/eth0", "1\n", "down\n")
    assert not counts("/sys/devices/pci0000:00/net/ib0", "32\n", "up\n")


async def test_this_machine_is_measured() -> None:
    usage = HostUsage()
    await usage.measure()
    end = psutil.Process().cpu_times().user + 0.05
    while psutil.Process().cpu_times().user < end:
        sum(range(10_000))
    measured = await usage.measure()
    assert measured is usage.last
    assert 0 < measured.cpu.usage <= measured.cpu.limit
    assert measured.memory.usage == pytest.approx(psutil.Process().memory_info().rss / (1 << 20), rel=0.5)
    assert 0 < measured.memory.limit <= psutil.virtual_memory().total / (1 << 20)


async def test_a_system_without_these_files_has_usages_of_nothing(tmp_path: Path) -> None:
    usage = HostUsage(tmp_path)
    await usage.measure()
    measured = await usage.measure()
    assert (measured.bandwidth_in.limit, measured.memory.limit) == (0, 0)
    assert measured.cpu.limit >= 100


async def test_a_container_s_files_are_read(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 1000000\n")
    (group / "cpu.max").write_text("50000 100000\n")
    (group / "memory.max").write_text(f"{256 << 20}\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8388608 kB\n")
    nic = tmp_path / "sys/class/net/eth0"
    (nic / "statistics").mkdir(parents=True)
    for name, text in {"type": "1", "operstate": "up", "speed": "10000", "statistics/rx_bytes": "7"}.items():
        (nic / name).write_text(f"{text}\n")
    measured = await HostUsage(tmp_path).measure()
    assert measured.cpu.limit == 50
    assert measured.memory.limit == 256
    assert measured.bandwidth_in.limit == 10_000_000
