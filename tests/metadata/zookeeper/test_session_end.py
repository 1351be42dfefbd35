"""The session of a dead process is ended by another one, which knows its id and password."""

import pytest

from magnetar.metadata.errors import StoreUnavailableError
from magnetar.metadata.zookeeper.session_end import end_session
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.zookeeper.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, free_ports
from tests.waiting import until


@pytest.mark.process
async def test_its_ephemeral_records_go_at_once(
    server: ZooKeeperServer, proxy: ZkProxy, direct: ZooKeeperStore, chroot: str
) -> None:
    dead = await ZooKeeperStore.open(proxy.address + chroot, session_timeout_ms=60_000)
    try:
        await dead.create("/owner", b"dead", ephemeral=True)
        session_id, password = dead.session
        seen: list[object] = []
        direct.watch("/owner", seen.append)
        await direct.get("/owner")
        await proxy.close()
        assert await end_session(server.address + chroot, session_id, password)
        await until(lambda: bool(seen))
        assert await direct.exists("/owner") is None
        assert not await end_session(server.address, session_id, password), "a second time it is over already"
    finally:
        await dead.close()


@pytest.mark.process
async def test_a_wrong_password_ends_nothing(
    server: ZooKeeperServer, proxy: ZkProxy, direct: ZooKeeperStore, chroot: str
) -> None:
    """The owner's connection is gone, because Apache's server has one connection for a session: an owner that comes
    back may take the place of the caller before the caller has its answer."""
    owner = await ZooKeeperStore.open(proxy.address + chroot, session_timeout_ms=60_000)
    try:
        await owner.create("/owner", b"", ephemeral=True)
        await proxy.close()
        assert not await end_session(server.address, owner.session[0], bytes(16))
        assert await direct.exists("/owner") is not None
    finally:
        await owner.close()


async def test_without_a_server_the_end_is_not_certain() -> None:
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailableError, match="was not ended"):
        await end_session(f"127.0.0.1:{port}", 1, bytes(16))
