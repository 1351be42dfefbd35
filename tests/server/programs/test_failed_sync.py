"""A sync fails, of each file in turn that a standalone server writes: the process ends and says why, and nothing
acknowledged is lost. `failing_sync.c` makes the sync fail in place of the kernel, so every library meets it: ours,
SQLite and RocksDB."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.unavailable import unavailable
from tests.server.receipt_site import check, publish

pytestmark = pytest.mark.process

FILES = [
    "metadata.sqlite-wal",
    "metadata.sqlite",
    "ledgers/metadataWitness",
    "journal/*.journal",
    "ledgers/*.log",
    "ledgers/lastMark.new",
    "ledgers/index/*.log",
]
SETTINGS = {"flushInterval": "100"}
TOPICS_MAX = 200
"""This many topics are enough to make the server sync every file."""
TOPIC = "persistent://public/default/{}"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        unavailable("needs a C compiler on Linux")
    library = tmp_path_factory.mktemp("shim") / "failing_sync.so"
    source = Path(__file__).with_name("failing_sync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("file", FILES)
async def test_the_process_ends_with_the_reason_and_loses_nothing(tmp_path: Path, shim: Path, file: str) -> None:
    control = tmp_path / "control"
    server = Server(tmp_path, settings=SETTINGS, environment={"LD_PRELOAD": str(shim), "FAIL_SYNC_OF": str(control)})
    await server.start_async()
    try:
        acknowledged = [TOPIC.format("before")]
        await publish(server.broker_port, acknowledged[0])
        control.write_text(f"*/{file}")
        number = 0
        while server.is_running:
            number += 1
            assert number < TOPICS_MAX, "nobody noticed"
            topic = TOPIC.format(number)
            try:
                async with asyncio.timeout(5):
                    await publish(server.broker_port, topic)
            except (AssertionError, OSError, EOFError, TimeoutError):
                await asyncio.to_thread(server.wait)
            else:
                acknowledged.append(topic)
        assert server.wait() == 1
        sentence = next(line for line in server.log_text().splitlines() if line.startswith("magnetar: "))
        assert "the server ends" in sentence
        assert "metadata" in sentence if "metadata" in file else "bookie" in sentence
        control.unlink()
        await server.start_async()
        for topic in acknowledged:
            await check(server.broker_port, topic)
    finally:
        server.close()
