"""`python -m tests.storage.bookie.bookie_process FOLDER ZOOKEEPER`: one bookie with its port, registered in ZooKeeper.

For the tests with Apache's clients and tools. Prints one line, its bookie id, when it can be used, and ends with its
standard input.
"""

import asyncio
import sys

from metadata import paths
from metadata.zookeeper import ZooKeeperStore
from pulsar_proto.pb import bookkeeper_pb2 as pb
from storage.bookie.config import BookieConfig
from storage.bookie.service import Bookie
from storage.bookie.wire_calls import DiskSpace
from storage.bookie.wire_server import BookieWireServer
from storage.ledger.listing import list_ledgers

HOST = "127.0.0.1"


def service_info(port: int) -> bytes:
    """What Java clients connect by (facts 4)."""
    endpoint = pb.BookieServiceInfoFormat.Endpoint(id="bookie", port=port, host=HOST, protocol="bookie-rpc")
    return pb.BookieServiceInfoFormat(endpoints=[endpoint]).SerializeToString()


async def serve(folder: str, zookeeper: str) -> None:
    metadata = await ZooKeeperStore.open(zookeeper)
    config = BookieConfig(journal_directory=f"{folder}/journal", ledger_directories=(f"{folder}/ledgers",))

    async def ledgers() -> set[int]:
        return await list_ledgers(metadata)

    bookie = await Bookie.open(config, bookie_id="test", list_ledgers=ledgers)
    server = BookieWireServer(bookie, disk_space=DiskSpace(config.ledger_directories))
    port = await server.start(HOST, 0)
    bookie_id = f"{HOST}:{port}"
    await metadata.create(f"{paths.AVAILABLE_BOOKIES}/{bookie_id}", service_info(port), ephemeral=True)
    print(bookie_id, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await metadata.close()
    await server.close()
    await bookie.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
