"""Our server answers random histories as Java's does, besides times and ids: every field, error, event and order.

`python -m tests.metadata.zookeeper_server.test_against_java 5000` tells more of them.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.metadata.zookeeper.own_server import OwnServer, running
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer
from tests.metadata.zookeeper_server.histories import Teller, history, shown

pytestmark = pytest.mark.process

HISTORIES = 60


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ZooKeeperServer, OwnServer]]:
    folder = tmp_path_factory.mktemp("both")
    with running(folder / "java", ZooKeeperServer) as java, running(folder / "own", OwnServer) as own:
        yield java, own


async def difference(seed: int, java: ZooKeeperServer, own: OwnServer) -> str:
    steps = history(seed)
    told = await asyncio.gather(Teller(java.port).tell(steps), Teller(own.port).tell(steps))
    return shown(steps, *told)


async def test_the_same_histories_are_answered_alike(servers: tuple[ZooKeeperServer, OwnServer]) -> None:
    for seed in range(HISTORIES):
        assert await difference(seed, *servers) == "", f"seed {seed}"


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with running(folder / "java", ZooKeeperServer) as java, running(folder / "own", OwnServer) as own:
            for seed in range(1000, 1000 + count):
                found = asyncio.run(difference(seed, java, own))
                if found:
                    print(f"seed {seed}: {found}")
                    sys.exit(1)
    print(f"{count} histories were answered alike")


if __name__ == "__main__":
    main(int(sys.argv[1]))
