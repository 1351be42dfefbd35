"""What the disk alone allows a publisher: how long small writes take to be durable while files of the same disk are
read as fast as it can. No server has anything to do with it, so no server's latency can be lower."""

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

WRITE_BYTES = 4096
SPAN_BYTES = 64 << 20


def write_latencies(folder: Path, files: Sequence[Path], per_second: int, seconds: int) -> list[float]:
    """Returns the latencies, in ms and ascending, of `per_second` writes a second beside a process that reads `files`
    one after the other, until all are read or `seconds` are over. The system must not have the files in memory.

    A latency counts from the moment at which the write was due. Writes that are due together are synced together, as a
    journal does. The file that is written to lies in `folder`, and its blocks are on the disk before.
    """
    count = per_second * seconds
    block = os.urandom(WRITE_BYTES)
    latencies: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        descriptor = file.fileno()
        os.pwrite(descriptor, bytes(SPAN_BYTES), 0)
        os.fsync(descriptor)
        reading = subprocess.Popen(["cat", *files], stdout=subprocess.DEVNULL)
        try:
            began = time.perf_counter()
            while len(latencies) < count and reading.poll() is None:
                written = len(latencies)
                time.sleep(max(0.0, began + written / per_second - time.perf_counter()))
                due = min(count, int((time.perf_counter() - began) * per_second) + 1)
                os.pwrite(descriptor, block * (due - written), written * WRITE_BYTES % (SPAN_BYTES // 2))
                os.fdatasync(descriptor)
                now = time.perf_counter()
                latencies += [(now - began - number / per_second) * 1000 for number in range(written, due)]
        finally:
            reading.kill()
            reading.wait()
    return sorted(latencies)
