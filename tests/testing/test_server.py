"""`magnetar.testing.Server` and `InProcessServer`: addresses, data, restarts, and what is left when a test process
dies."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import wait_until
from magnetar.testing import InProcessServer, Server, ServerError
from magnetar.testing.admin_calls import AdminError
from magnetar.testing.data_folder import DataFolder, remove_abandoned
from tests.testing.scenes import SECONDS_MAX, client_of

pytestmark = pytest.mark.process


def is_alive(pid: int) -> bool:
    """Returns whether the process runs. A process that has ended and that nobody has waited for does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_serves_the_official_client_and_leaves_nothing_behind() -> None:
    with Server() as server:
        folder, pid = server.log_path.parent, server.pid
        with client_of(server.get_connection_url()) as client:
            consumer = client.subscribe("orders", "test")
            client.create_producer("orders").send(b"one")
            assert consumer.receive().data() == b"one"
        assert server.admin.call("GET", "/admin/v2/persistent/public/default") == ["persistent://public/default/orders"]
        assert "listening for clients" in server.log_text()
    assert not is_alive(pid)
    assert not folder.exists()
    with pytest.raises(ServerError, match="was not started"):
        _ = server.service_url


def test_a_killed_server_comes_back_with_its_data_on_the_same_ports() -> None:
    with Server() as server:
        urls = (server.service_url, server.admin_url)
        with client_of(server.service_url) as client:
            client.create_producer("orders").send(b"one")
        server.kill()
        assert not server.is_running
        server.start()
        assert (server.service_url, server.admin_url) == urls
        with client_of(server.service_url) as client:
            reader = client.create_reader("orders", pulsar.MessageId.earliest)
            assert reader.read_next().data() == b"one"


def test_the_ports_of_a_server_that_is_down_are_given_to_nobody() -> None:
    with Server() as server:
        server.stop()
        for url in (server.service_url, server.admin_url):
            with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", int(url.rpartition(":")[2])))
        server.start()


def test_a_namespace_is_of_its_own_and_is_removed_with_its_topics() -> None:
    with Server() as server, client_of(server.service_url) as client:
        with server.namespace() as first, server.namespace() as second:
            assert first != second
            producer = client.create_producer(f"persistent://{first}/orders")
            producer.send(b"one")
            assert first in server.admin.call("GET", "/admin/v2/namespaces/public")
        assert first not in server.admin.call("GET", "/admin/v2/namespaces/public")
        with pytest.raises(AdminError, match="404"):
            server.admin.call("GET", f"/admin/v2/persistent/{first}/orders/stats")


def test_a_namespace_of_an_unknown_tenant_is_refused_with_the_servers_reason() -> None:
    with Server() as server, pytest.raises(AdminError, match=r"PUT /admin/v2/namespaces/nobody/test-.*: 404"):
        server.namespace("nobody").__enter__()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_behind() -> None:
    server = Server({"brokerServicePort": "many"})
    with pytest.raises(ServerError, match="brokerServicePort=many: expected a whole number"):
        server.__enter__()
    assert server.log_size() == 0


def test_data_in_a_folder_of_the_tests_own_stays(tmp_path: Path) -> None:
    with Server(data_dir=tmp_path / "data") as server, client_of(server.service_url) as client:
        client.create_producer("orders").send(b"one")
    with Server(data_dir=tmp_path / "data") as server, client_of(server.service_url) as client:
        assert client.create_reader("orders", pulsar.MessageId.earliest).read_next().data() == b"one"


async def test_a_server_is_an_asynchronous_context_manager_too() -> None:
    async with Server() as server:
        assert await asyncio.to_thread(server.admin.call, "GET", "/admin/v2/clusters") == ["standalone"]


def test_the_server_outlives_the_thread_that_started_it() -> None:
    """A child that the kernel binds to its parent would end with that thread."""
    server = Server()
    asyncio.run(asyncio.to_thread(server.start))
    try:
        assert server.admin.call("GET", "/admin/v2/clusters") == ["standalone"]
    finally:
        server.close()


ENDLESS = """
import sys
from magnetar.testing import Server
with Server() as server:
    print(server.pid, server.log_path.parent, flush=True)
    sys.stdin.read()
"""


def test_a_killed_test_process_takes_its_server_along_and_the_next_one_removes_its_data() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid, path = process.stdout.readline().split()
    folder = Path(path)
    assert is_alive(int(pid))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=SECONDS_MAX)
    wait_until(lambda: not is_alive(int(pid)), "the server ends")
    assert folder.exists()
    remove_abandoned(folder.parent)
    assert not folder.exists()


def test_folders_that_are_in_use_or_not_ours_are_left_alone(tmp_path: Path) -> None:
    used = DataFolder(tmp_path)
    (tmp_path / "magnetar-testing-being-made").mkdir()
    (tmp_path / "lock").touch()
    strange = tmp_path / "magnetar-testing-strange"
    strange.mkdir()
    (strange / "owner.lock").symlink_to(tmp_path / "lock")
    remove_abandoned(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    used.remove()
    assert not used.path.exists()


async def test_a_server_on_the_callers_loop_serves_the_official_client() -> None:
    gc.unfreeze()  # what servers of earlier tests in this process have frozen
    before = (sys.getswitchinterval(), gc.get_freeze_count(), time.time, time.time_ns)

    def use(url: str) -> bytes:
        with client_of(url) as client:
            consumer = client.subscribe("orders", "test")
            client.create_producer("orders").send(b"one")
            return bytes(consumer.receive().data())

    async with InProcessServer() as server:
        assert await asyncio.to_thread(use, server.get_connection_url()) == b"one"
        # The web port answers when its modules are imported, after which nothing is frozen any more.
        assert await asyncio.to_thread(server.admin.call, "GET", "/admin/v2/clusters") == ["standalone"]
        folder = server.data_dir
        assert folder.exists()
    assert not folder.exists()
    assert (sys.getswitchinterval(), gc.get_freeze_count(), time.time, time.time_ns) == before


def test_the_package_imports_nothing_until_a_class_is_asked_for() -> None:
    code = "import magnetar.testing.pytest_plugin, sys; print([m for m in sys.modules if m.startswith('magnetar.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.stdout.strip() == "['magnetar.testing', 'magnetar.testing.pytest_plugin']"
