"""A backup that breaks off, for whatever reason, leaves the backup before it whole."""

import random
import signal
import subprocess
from pathlib import Path

import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.small_disk import small_disk
from tests.server.backup.commands import SECONDS_MAX, back_up, run, start, verified
from tests.server.official_client import client_of

pytestmark = pytest.mark.process

MESSAGE = b"x" * 50_000
ROUNDS = 8


def publish(server: Server, count: int) -> None:
    with client_of(server) as client:
        producer = client.create_producer("a", batching_enabled=False, block_if_queue_full=True)
        for _ in range(count):
            producer.send_async(MESSAGE, lambda result, message_id: None)
        producer.flush()


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def kill_after(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Kills the process when it has run for so long; returns whether it was still running."""
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=SECONDS_MAX)
        return True


def test_a_backup_that_is_killed_at_any_moment_leaves_a_sound_one(tmp_path: Path) -> None:
    folder, rng = tmp_path / "backup", random.Random(7)
    killed = 0
    with Server(tmp_path) as server:
        publish(server, 400)
        back_up(server, folder)
        generation = 1
        for number in range(ROUNDS):
            publish(server, 40)
            options = ("--full",) if number % 2 else ()
            process = start("backup", folder, "--admin-url", server.web_url, *options)
            killed += kill_after(process, rng.uniform(0.05, 0.5))
            found = verified(folder).generation
            assert generation <= found <= generation + 1
            generation = found
        assert killed > 0
        back_up(server, folder)
        manifest = verified(folder)
        assert manifest.files() == {
            str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix in (".entries", ".records")
        }
        assert sum(copy.entries for copy in manifest.ledgers.values()) >= 400 + 40 * ROUNDS


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_server_that_ends_during_a_backup_leaves_a_sound_one(tmp_path: Path, is_killed: bool) -> None:
    folder = tmp_path / "backup"
    with Server(tmp_path) as server:
        publish(server, 40)
        back_up(server, folder)
        before = verified(folder)
        publish(server, 2000)
        size = size_of(folder / "ledgers")
        process = start("backup", folder, "--admin-url", server.web_url, "--max-rate", "20")
        wait_until(lambda: size_of(folder / "ledgers") > size, "entries come")
        server.kill() if is_killed else server.stop()
        _, err = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 1
        assert err.startswith("magnetar: ")
        assert f"{folder} is as it was before" in err
        assert "Traceback" not in err
        assert verified(folder) == before
        assert size_of(folder / "ledgers") == size
        server.start()
        back_up(server, folder)
        assert sum(copy.entries for copy in verified(folder).ledgers.values()) >= 2040


def test_a_full_disk_is_told_and_leaves_the_backup_before(tmp_path: Path) -> None:
    target = tmp_path / "disk"
    target.mkdir()
    with small_disk(target, 16) as disk, Server(tmp_path) as server:
        folder = target / "backup"
        publish(server, 40)
        back_up(server, folder)
        before = verified(folder)
        publish(server, 100)
        disk.fill(leave_bytes=1 << 20)
        done = run("backup", folder, "--admin-url", server.web_url)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert f"{folder} is as it was before" in done.stderr
        assert verified(folder) == before
        disk.empty()
        back_up(server, folder)
        assert verified(folder).generation == 2


def test_a_second_backup_into_the_same_folder_at_the_same_time_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with Server(tmp_path) as server:
        publish(server, 2000)
        process = start("backup", folder, "--admin-url", server.web_url, "--max-rate", "20")
        wait_until(lambda: any(folder.glob("ledgers/*")), "entries come")
        process.send_signal(signal.SIGSTOP)  # so that it is still under way when the others have started
        second = run("backup", folder, "--admin-url", server.web_url)
        reading = run("restore", "--verify-only", folder)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, err
    assert second.returncode == 1
    assert "is in use by another backup" in second.stderr
    assert reading.returncode == 1
    assert "is in use by a backup" in reading.stderr
    verified(folder)


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = run("backup", tmp_path / "backup", "--admin-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "cannot call http://127.0.0.1:1: Connection refused" in done.stderr
