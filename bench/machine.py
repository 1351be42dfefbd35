"""How fit the machine is for measuring: a busy neighbour or a slow disk explains figures that the server cannot."""

import os
import tempfile
import time

PROBES = 200
PROBE_BYTES = 4096
CALM_FSYNC_MS = 0.3
CALM_LOAD = 0.5
"""Per core, before the first load of the bench."""


def fdatasync_ms() -> tuple[float, float]:
    """p50 and p99 of appending 4 KB and syncing it, in the folder that the servers' data goes to."""
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
    """One line about cores, load and disk; it warns when figures of this run would not be the server's."""
    p50, p99 = fdatasync_ms()
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    text = f"{cores} cores, load {load:.2f}, fdatasync of 4 KB p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    calm = p50 <= CALM_FSYNC_MS and load <= CALM_LOAD * cores
    return text if calm else f"{text}: NOT CALM, rates and latencies below are too bad, CPU a bit"
