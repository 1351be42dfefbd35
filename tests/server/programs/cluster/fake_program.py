"""Stands for `magnetar` in tests of the supervisor: bookies and the metadata are the real ones, a broker is a process
that holds a ZooKeeper session with one ephemeral record, says that it is ready, and waits.

A broker's folder may hold files that change what it does: `hang` makes it ignore SIGTERM, `refuse` makes it end at once
with a sentence, `silent` keeps it from becoming ready.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from magnetar.server.process.supervision import SESSION_FILE_VARIABLE, end_with_supervisor, tell_supervisor

SESSION_MS = 30_000


async def broker(settings: dict[str, str]) -> None:
    end_with_supervisor()
    folder = Path(os.environ[SESSION_FILE_VARIABLE]).parent
    if (folder / "refuse").exists():
        print("noise", file=sys.stderr)
        sys.exit("magnetar: " + (folder / "refuse").read_text())
    stop = asyncio.Event()
    hangs = (folder / "hang").exists()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, (lambda: None) if hangs else stop.set)
    store = await ZooKeeperStore.open(settings["metadataStoreUrl"].removeprefix("zk:"), session_timeout_ms=SESSION_MS)
    tell_supervisor(store)
    port, web = settings["brokerServicePort"], settings["webServicePort"]
    await store.create(f"/loadbalance/brokers/127.0.0.1:{web}", ephemeral=True, make_parents=True)
    print(f"broker at {port} has its record", file=sys.stderr)
    if not (folder / "silent").exists():
        urls = {"brokerServiceUrl": f"pulsar://127.0.0.1:{port}", "webServiceUrl": f"http://127.0.0.1:{web}"}
        print(json.dumps({**urls, "pid": os.getpid(), "settings": settings}), flush=True)
    await stop.wait()
    await store.close()


if __name__ == "__main__":
    if sys.argv[1] != "broker":
        sys.exit(main(sys.argv[1:]))
    assignments = [sys.argv[number + 1] for number, word in enumerate(sys.argv) if word == "--set"]
    asyncio.run(broker(dict(each.split("=", 1) for each in assignments)))
