"""The harness itself: a failed start shows the log, an ERROR line is found, and async use works as sync use does."""

import urllib.request
from pathlib import Path

import pytest

from compat_tests import wire
from compat_tests.conftest import ServerFactory
from compat_tests.harness import Server, ServerFailedError, wait_until


async def test_a_server_in_an_async_with_block_runs_until_its_end(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        assert server.is_running
        with wire.WireClient(server.broker_port):
            pass
    assert not server.is_running


def test_a_server_keeps_its_ports_over_restarts(own_server: Server) -> None:
    before = own_server.address
    own_server.kill()
    own_server.start()
    assert (own_server.broker_url, own_server.web_url) == (before.broker_url, before.web_url)
    assert own_server.pid != before.pid
    with urllib.request.urlopen(f"{own_server.web_url}/admin/v2/brokers/health", timeout=60) as answer:
        assert answer.status == 200


def test_a_failed_start_shows_the_end_of_the_log(make_server: ServerFactory, tmp_path: Path, is_peer: bool) -> None:
    if is_peer:
        pytest.skip("the harness writes the peer's configuration into its data folder")
    blocked = tmp_path / "a-file"
    blocked.write_text("no folder")
    server = make_server(data_dir=blocked)
    with pytest.raises(ServerFailedError, match="a-file"):
        server.start()
    assert not server.is_running


def test_error_lines_in_the_log_are_found_unless_allowed(own_server: Server, is_peer: bool) -> None:
    if is_peer:
        pytest.skip("the peer's ERROR lines do not count")
    own_server.assert_no_errors()
    own_server.stop()
    size = own_server.log_size()
    sound = own_server.log_path.read_bytes()
    own_server.log_path.write_bytes(sound + b"2026-01-01 00:00:00,000 ERROR storage.bookie.journal broken\n")
    with pytest.raises(ServerFailedError, match=r"storage\.bookie\.journal broken"):
        own_server.assert_no_errors()
    own_server.assert_no_errors(allowed=["journal broken"])
    own_server.assert_no_errors(own_server.log_size())
    assert len(own_server.error_lines(size)) == 1
    own_server.log_path.write_bytes(sound)


def test_waiting_for_what_does_not_happen_says_what() -> None:
    with pytest.raises(TimeoutError, match="the moon"):
        wait_until(lambda: False, "the moon", timeout_seconds=0.05)
