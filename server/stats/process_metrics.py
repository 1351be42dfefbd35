"""The metrics of the process, by the names of Prometheus's Java client, and stand-ins for those of a Java process.

Published dashboards choose their brokers by `jvm_info` and `jvm_memory_bytes_used`, and are blank without them. What
has a meaning in a Python process is shown under the names of the JVM: memory, threads, garbage collections, the entry
cache as a cache of Caffeine, and the HTTP port as Jetty. compat_tests/NOTES.md says what each name stands for.
"""

import gc
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import aiofiles
import aiofiles.os

from magnetar import __version__
from magnetar.server.process.metric_tables import MetricFamilies

if TYPE_CHECKING:
    from magnetar.storage.managed.tail_cache import TailCache

BOOT_CLOCK = time.CLOCK_BOOTTIME if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_MONOTONIC


class CollectorClock:
    """Measures how long Python's garbage collections take. `gc.callbacks` calls it before and after each collection."""

    def __init__(self) -> None:
        self.seconds = [0.0, 0.0, 0.0]
        """The time of the collections of each generation."""
        self.counts = [0, 0, 0]
        self._began_s = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.perf_counter()
            return
        generation = info["generation"]
        self.seconds[generation] += time.perf_counter() - self._began_s
        self.counts[generation] += 1


COLLECTIONS = CollectorClock()
"""The garbage collections of this process since this module was imported, which happens right after the start."""
gc.callbacks.append(COLLECTIONS)


async def add_process(families: MetricFamilies, cache: "TailCache") -> None:
    """Adds the metrics of the process. Leaves out values that the operating system does not provide. `cache` is the
    cache of entries, which stands for the direct memory and for the caches of a JVM."""
    labels = families.labels()
    families.add("process_cpu_seconds_total", labels, time.process_time(), "counter")
    families.add("process_max_fds", labels, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        # The fields of proc(5) after the command's name, counted from 0: 19 is the start in ticks since boot, 20 the
        # size in bytes, 21 the number of resident pages.
        async with aiofiles.open("/proc/self/stat") as file:
            fields = (await file.read()).rpartition(")")[2].split()
        open_files = len(await aiofiles.os.listdir("/proc/self/fd"))
    except OSError:
        pass
    else:
        resident = int(fields[21]) * resource.getpagesize()
        booted_s = time.time() - time.clock_gettime(BOOT_CLOCK)
        families.add("process_start_time_seconds", labels, booted_s + int(fields[19]) / os.sysconf("SC_CLK_TCK"))
        families.add("process_virtual_memory_bytes", labels, int(fields[20]))
        families.add("process_resident_memory_bytes", labels, resident)
        families.add("process_open_fds", labels, open_files)
    for name, further, value, kind in (*_as_of_a_jvm(resident), *_as_of_caffeine(cache)):
        families.add(name, families.labels(**further), value, kind)
    families.add("jvm_memory_direct_bytes_used", labels, cache.bytes_held)
    families.add("jvm_memory_direct_bytes_max", labels, cache.bytes_max)


def _as_of_a_jvm(resident_bytes: int) -> Iterator[tuple[str, dict[str, str], float, str]]:
    """Yields (name, labels besides `cluster`, value, kind) of the stand-ins for the metrics of a JVM's process."""
    version = {"version": platform.python_version(), "vendor": "Magnetar", "runtime": f"Magnetar {__version__}"}
    yield "jvm_info", version, 1, "gauge"
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for area, used in (("heap", resident_bytes), ("nonheap", 0)):
        yield "jvm_memory_bytes_used", {"area": area}, used, "gauge"
        yield "jvm_memory_bytes_committed", {"area": area}, used, "gauge"
        yield "jvm_memory_bytes_max", {"area": area}, memory_bytes if area == "heap" else -1, "gauge"
    yield "jvm_memory_pool_bytes_used", {"pool": "resident"}, resident_bytes, "gauge"
    yield "jvm_classes_loaded", {}, len(sys.modules), "gauge"
    threads = threading.active_count()
    yield "jvm_threads_current", {}, threads, "gauge"
    yield "jvm_threads_deadlocked", {}, 0, "gauge"
    yield "jvm_threads_state", {"state": "RUNNABLE"}, threads, "gauge"
    for generation, seconds in enumerate(COLLECTIONS.seconds):
        name = {"gc": f"generation {generation}"}
        yield "jvm_gc_collection_seconds_sum", name, seconds, "counter"
        yield "jvm_gc_collection_seconds_count", name, COLLECTIONS.counts[generation], "counter"
    yield "jvm_pause_time_ms_sum", {}, 1000 * sum(COLLECTIONS.seconds), "counter"
    yield "jvm_pause_time_ms_count", {}, sum(COLLECTIONS.counts), "counter"


def _as_of_caffeine(cache: "TailCache") -> Iterator[tuple[str, dict[str, str], float, str]]:
    """Yields the same for the cache of entries, by the names of Caffeine's collector."""
    of_entries = {"cache": "managed-ledger-entries"}
    yield "caffeine_cache_estimated_size", of_entries, cache.entries_added - cache.entries_evicted, "gauge"
    yield "caffeine_cache_hit_total", of_entries, cache.hit_entries, "counter"
    yield "caffeine_cache_miss_total", of_entries, cache.missed_entries, "counter"
    yield "caffeine_cache_requests_total", of_entries, cache.hit_entries + cache.missed_entries, "counter"
    yield "caffeine_cache_eviction_total", of_entries, cache.entries_evicted, "counter"
    yield "caffeine_cache_loads_total", of_entries, cache.missed_reads, "counter"
    yield "caffeine_cache_load_duration_seconds_count", of_entries, cache.missed_reads, "counter"
    yield "caffeine_cache_load_duration_seconds_sum", of_entries, cache.missed_seconds, "counter"
