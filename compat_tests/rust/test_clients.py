"""The Rust client (crate `pulsar`) against our server: the programs in `src/` print one line for each check."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.certificates import Authority
from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from compat_tests.security_site import running_site
from compat_tests.unavailable import unavailable
from compat_tests.user_cache import cache_folder

CRATE = Path(__file__).parent
BUILD_SECONDS = 1800
RUN_SECONDS = 600
BRIEF_TOKEN_SECONDS = 3
REQUEST = "please "
Deed = Callable[[str], None]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program() -> Path:
    """Builds the program once, in the user's cache, so that the worktree stays clean."""
    cargo = shutil.which("cargo")
    if cargo is None:
        unavailable("needs cargo for the Rust client")
    cache = cache_folder()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache / "rust-target")
    environment = {**os.environ, "PROTOC": protoc(cache)}
    command = [cargo, "build", "--quiet", "--locked", "--jobs", "1", "--target-dir", str(target)]
    try:
        done = subprocess.run(
            command, cwd=CRATE, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
        )
    except subprocess.TimeoutExpired:
        unavailable(f"the Rust client was not built within {BUILD_SECONDS} s")
    if done.returncode != 0:
        unavailable(f"the Rust client cannot be built: {done.stderr[-2000:]}")
    return target / "debug" / "rust-client-checks"


def protoc(folder: Path) -> str:
    """Returns the compiler of .proto files that the crate's build calls; without an installed one, that of
    grpcio-tools."""
    found = os.environ.get("PROTOC") or shutil.which("protoc")
    if found:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "protoc"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n')
    script.chmod(0o755)
    return str(script)


def checked(program: Path, *arguments: str, deeds: dict[str, Deed] | None = None) -> dict[str, str]:
    """Runs the program and returns what it says about each check. What it asks for meanwhile is done by `deeds`."""
    process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(RUN_SECONDS, process.kill)
    watchdog.start()
    said = {}
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(REQUEST):
                verb, _, what = line.removeprefix(REQUEST).strip().partition(" ")
                (deeds or {})[verb](what)
                process.stdin.write("done\n")
                process.stdin.flush()
            else:
                name, _, outcome = line.strip().partition("=")
                said[name] = outcome
        assert process.wait(RUN_SECONDS) == 0, said
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
    return said


def assert_ok(said: dict[str, str], names: str) -> None:
    assert said == dict.fromkeys(names.split(), "ok")


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def test_features(program: Path, own_server: Server) -> None:
    admin = Admin(own_server)
    for name in ("rust-once", "rust-manual", "rust-pattern", "rust-sealed"):
        admin.put(f"namespaces/public/{name}")
    admin.post("namespaces/public/rust-once/deduplication", True)
    admin.post("namespaces/public/rust-manual/autoTopicCreation", {"allowAutoTopicCreation": False})
    admin.post("namespaces/public/rust-sealed/encryptionRequired", True)
    admin.put("persistent/public/default/rust-parted/partitions", 4)

    def compact(topic: str) -> None:
        admin.put(f"{path_of(topic)}/compaction")
        while (state := admin.get(f"{path_of(topic)}/compaction")["status"]) == "RUNNING":
            time.sleep(0.02)
        assert state == "SUCCESS"

    deeds: dict[str, Deed] = {
        "compact": compact,
        "unload": lambda topic: admin.put(f"{path_of(topic)}/unload"),
        "delete": lambda topic: admin.delete(f"{path_of(topic)}?force=true"),
        "terminate": lambda topic: admin.post(f"{path_of(topic)}/terminate"),
    }
    said = checked(program, "features", own_server.broker_url, own_server.web_url, deeds=deeds)
    assert_ok(
        said,
        "sent_and_received sent_without_waiting sent_by_the_client batched compressed metadata_kept delayed"
        " deduplicated name_taken access_modes queue_full too_large not_persistent exclusive shared failover key_shared"
        " nacked nacked_in_a_batch batch_acknowledged_up_to begun_in_a_batch small_window priorities"
        " forgotten dead_letters cumulative batch_acknowledged stats seeking last_id unsubscribed readers reader_seeks"
        " partitions several_topics pattern looked_up missing bad_names unacknowledged_limit compacted unloaded"
        " deleted unencrypted terminated records primitives none",
    )


def test_a_killed_server(program: Path, own_server: Server) -> None:
    def kill(_: str) -> None:
        own_server.kill()
        own_server.start()

    admin = Admin(own_server)
    admin.put("namespaces/public/rust-once")
    admin.post("namespaces/public/rust-once/deduplication", True)
    said = checked(program, "restarts", own_server.broker_url, own_server.web_url, deeds={"kill": kill})
    assert_ok(said, "killed_when_idle killed_with_batches killed_while_sending killed_once")


@pytest.fixture
def token_keeper() -> Iterator[list[threading.Event]]:
    stops: list[threading.Event] = []
    yield stops
    for stop in stops:
        stop.set()


def test_who_comes(program: Path, tmp_path: Path, token_keeper: list[threading.Event]) -> None:
    with running_site(tmp_path) as site:
        Authority(tmp_path, "stranger")
        for role in ("alice", "bob", "dave"):
            (tmp_path / f"{role}.token").write_text(site.token(role))
        (tmp_path / "expired.token").write_text(site.token("dave", -60))
        stop = threading.Event()
        token_keeper.append(stop)

        def renew() -> None:
            while True:
                fresh = tmp_path / "brief.new"
                fresh.write_text(site.token("dave", BRIEF_TOKEN_SECONDS))
                fresh.rename(tmp_path / "brief.token")
                if stop.wait(1):
                    return

        thread = threading.Thread(target=renew)
        thread.start()
        address = site.server.address
        try:
            urls = [address.broker_url, address.broker_url_tls, str(tmp_path), address.web_url_tls]
            said = checked(program, "secure", *urls)
        finally:
            stop.set()
            thread.join()
    assert_ok(
        said,
        "token token_over_tls tls_unchecked password stranger_server bad_credentials not_allowed admin_over_tls"
        " renewed",
    )
