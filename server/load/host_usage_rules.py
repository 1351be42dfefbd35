"""Reads the figures of Linux about processors, memory and network interfaces. Does no I/O: the functions get the texts
of the files.

Source: LinuxInfoUtils of Pulsar's broker. The files are described in proc(5), in the kernel's `cgroup-v1/cpuacct.rst`,
`cgroup-v2.rst` and `ABI/testing/sysfs-class-net`.
"""

from dataclasses import dataclass

from magnetar.server.load.broker_report import BrokerUsage, ResourceUsage

MB = 1 << 20
ETHERNET = "1"
"""The type of network interfaces that count (ARPHRD_ETHER)."""
KBIT_PER_MBIT = 1000.0


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface that counts: a physical one that is up."""

    received_bytes: int
    sent_bytes: int
    speed_mbit: float
    """The speed of the interface, or -1 when the system does not know the speed, as in most virtual machines."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures that were read at one moment."""

    at_s: float
    """The moment, in seconds of the monotonic clock."""
    cpu_busy_s: float
    """How long the processors have worked, for this container or, without one, for the machine."""
    loop_busy_s: float
    """How long the thread of the event loop has worked."""
    cores: float
    """How many processors there are for this container, or in the machine."""
    memory_used_mb: float
    memory_limit_mb: float
    interfaces: tuple[Interface, ...] = ()


def number_in(text: str | None) -> int | None:
    """Returns the whole number that a file consists of, or None when the file is missing or has other content."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def cgroup_v2_busy_s(cpu_stat: str | None) -> float | None:
    """Returns the processor time in cpu.stat of a container, in seconds."""
    for line in (cpu_stat or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and (micros := number_in(value)) is not None:
            return micros / 1e6
    return None


def cgroup_v2_cores(cpu_max: str | None) -> float | None:
    """Returns the limit in cpu.max of a container as a number of processors, or None when there is no limit."""
    quota, _, period = (cpu_max or "").strip().partition(" ")
    return _share(number_in(quota), number_in(period))


def cgroup_v1_cores(quota_us: str | None, period_us: str | None) -> float | None:
    """Returns the limit in cpu.cfs_quota_us and cpu.cfs_period_us of a container as a number of processors, or None
    when there is no limit."""
    return _share(number_in(quota_us), number_in(period_us))


def _share(quota: int | None, period: int | None) -> float | None:
    return quota / period if quota is not None and period is not None and quota > 0 and period > 0 else None


def host_busy_s(stat: str | None, ticks_per_second: int) -> float | None:
    """Returns how long the machine's processors have worked since it was started, from /proc/stat."""
    first = (stat or "").partition("\n")[0].split()
    if len(first) < 5 or first[0] != "cpu":
        return None
    try:
        user, nice, system, _, *more = map(int, first[1:9])
    except ValueError:
        return None
    # The field behind the idle time is the time of waiting for input and output, which is idle time, too. The next
    # fields are times of interrupts and stolen time.
    return (user + nice + system + sum(more[1:])) / ticks_per_second


def memory_mb(meminfo: str | None, name: str) -> float | None:
    """Returns a figure of /proc/meminfo or /proc/PID/status."""
    for line in (meminfo or "").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            kilobytes = number_in(value.strip().removesuffix(" kB"))
            return None if kilobytes is None else kilobytes / 1024
    return None


def counts(real_path: str, kind: str | None, operstate: str | None) -> bool:
    """Returns whether an interface is physical and up. Bridges, tunnels and the loopback are virtual devices."""
    is_physical = "/devices/virtual/" not in real_path
    return is_physical and (kind or "").strip() == ETHERNET and (operstate or "").strip() != "down"


def usage_between(before: Reading, now: Reading, nic_speed_gbps: float = 0) -> BrokerUsage:
    """Returns the usage between two readings.

    The event loop is one thread: a broker whose loop always works is full, however many processors are idle. Therefore
    the reported usage of the processors is the larger one of two fractions: of the machine's or container's processors,
    and of the loop's thread."""
    elapsed = now.at_s - before.at_s
    cores = max(now.cores, 0.01)
    cpu = _part(now.cpu_busy_s - before.cpu_busy_s, elapsed * cores)
    loop = _part(now.loop_busy_s - before.loop_busy_s, elapsed)
    limit = 100 * cores
    speed = sum((nic_speed_gbps * 1000 or each.speed_mbit) * KBIT_PER_MBIT for each in now.interfaces)
    return BrokerUsage(
        cpu=ResourceUsage(max(cpu, loop) * limit, limit),
        memory=ResourceUsage(now.memory_used_mb, now.memory_limit_mb),
        direct_memory=ResourceUsage(0.0, now.memory_limit_mb),
        bandwidth_in=ResourceUsage(_kbit(before, now, elapsed, received=True), speed),
        bandwidth_out=ResourceUsage(_kbit(before, now, elapsed, received=False), speed),
    )


def _part(busy: float, possible: float) -> float:
    return min(1.0, max(0.0, busy / possible)) if possible > 0 else 0.0


def _kbit(before: Reading, now: Reading, elapsed: float, *, received: bool) -> float:
    def total(reading: Reading) -> int:
        return sum(each.received_bytes if received else each.sent_bytes for each in reading.interfaces)

    return max(0.0, (total(now) - total(before)) * 8 / 1000 / elapsed) if elapsed > 0 else 0.0
