"""How fit the machine is for measuring. A busy neighbour or a slow disk explains figures that the server does not."""

import os
import tempfile
import time

PROBES = 200
PROBE_BYTES = 4096
CALM_FSYNC_MS = 0.3
CALM_LOAD = 0.5
"""The load per core, before the bench's own first load, up to which the machine counts as quiet."""


def fdatasync_ms() -> tuple[float, float]:
    """Appends 4 KB and syncs again and again, in the folder of the servers' data; returns the p50 and p99 of the time
    that it takes."""
    block = os.urandom(PROBE_BYTES)
    took = []
    with tempfile.TemporaryFile(prefix="bench-probe-") as file:
        for _ in range(PROBES):
            began = time.perf_counter()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return took[PROBES // 2], took[PROBES * 99 // 100]


def describe() -> str:
    """Returns one line about cores, load and disk, with a warning when the machine is too busy or slow for good
    figures."""
    p50, p99 = fdatasync_ms()
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    text = f"{cores} cores, load {load:.2f}, fdatasync of 4 KB p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    calm = p50 <= CALM_FSYNC_MS and load <= CALM_LOAD * cores
    return text if calm else f"{text}: NOT CALM, rates and latencies below are too bad, CPU a bit"
