"""The base installation has every capability of a server, on each Python version, and with the lowest dependency
versions that it allows.

A lazy import hides a missing dependency until a user asks for the feature. So every module is imported, every route is
called, and the official client (in the tests' own environment) uses each capability once.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from compat_tests.bookkeeper.our_bookie import OurBookie
from compat_tests.harness import Server
from compat_tests.products import INTERPRETER_VARIABLE, Magnetar
from magnetar.server.admin.routes import ROUTES
from tests.installed.base_install import (
    ENVIRONMENTS,
    ROOT,
    VERSIONS,
    BaseInstall,
    base_python,
    tree_install,
    wheel_install,
)
from tests.metadata.zookeeper.zookeeper_server import running
from tests.server.admin.any_calls import BODIES, path_of
from tests.server.admin.captures import SETTINGS, ask_everything

pytestmark = pytest.mark.process

MODULES_AT_LEAST = 350
CALLS_PER_ROUTE = 3
SEED = 20261122
ENDS_THE_SERVER = "/admin/v2/brokers/shutdown"
MESSAGES = ("produce", "consume", "read", "bench", "check")
COMMANDS = ("standalone", "bookie", "autorecovery", "bk", "tokens", "testing", "spark", *MESSAGES)

PYTHON_TESTS = "compat_tests/python"
CAPABILITIES = (
    f"{PYTHON_TESTS}/test_produce.py::test_messages_arrive_unchanged_in_order",
    f"{PYTHON_TESTS}/test_consume.py::test_one_consumer_gets_everything_in_order",
    f"{PYTHON_TESTS}/test_consume.py::test_shared_consumers_split_the_messages",
    f"{PYTHON_TESTS}/test_schema.py::test_records_arrive",
    f"{PYTHON_TESTS}/test_schema.py::test_a_compatible_schema_becomes_the_next_version_and_both_are_read",
    f"{PYTHON_TESTS}/test_schema.py::test_schemas_over_rest",
    f"{PYTHON_TESTS}/test_policies.py::test_the_topic_outranks_its_namespace_and_both_hold_at_once",
    f"{PYTHON_TESTS}/test_compaction.py::test_compressed_batches_are_compacted",
    f"{PYTHON_TESTS}/test_deduplication.py::test_what_the_client_itself_sends_again_is_stored_once[on]",
    f"{PYTHON_TESTS}/test_delayed.py::test_each_subscription_and_who_comes_back_gets_them[Shared]",
    f"{PYTHON_TESTS}/test_http.py::test_metrics_count_what_went_through_a_topic",
    f"{PYTHON_TESTS}/test_security.py::TestTls::test_a_client_certificate_says_who_comes",
    f"{PYTHON_TESTS}/test_security.py::TestWho::test_a_token_of_magnetar_tokens_is_taken",
    f"{PYTHON_TESTS}/test_security.py::TestWho::test_a_password_is_taken_over_both_kinds_of_service_url",
    f"{PYTHON_TESTS}/test_security.py::TestMay::test_a_role_does_what_it_was_granted_and_no_more",
)


@pytest.fixture(scope="session")
def from_wheel(request: pytest.FixtureRequest, wheel: Path) -> BaseInstall:
    """Returns the wheel's installation in the environment that the test names."""
    return wheel_install(base_python(request.param, wheel), wheel, wheel.parent)


@pytest.fixture(scope="session")
def from_tree(request: pytest.FixtureRequest, wheel: Path) -> BaseInstall:
    return tree_install(base_python(request.param, wheel))


def run(program: tuple[str, ...], *arguments: str, folder: Path) -> str:
    """Runs the command and returns its output. Raises an error with the whole output when its exit code is not 0."""
    done = subprocess.run([*program, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def import_all(install: BaseInstall, folder: Path) -> int:
    return int(run(install.program, str(Path(__file__).with_name("import_all.py")), *install.packages, folder=folder))


@pytest.mark.parametrize("from_wheel", ENVIRONMENTS, indirect=True)
def test_every_module_of_the_wheel_can_be_imported(from_wheel: BaseInstall, tmp_path: Path) -> None:
    assert import_all(from_wheel, tmp_path) >= MODULES_AT_LEAST


@pytest.mark.parametrize("from_tree", VERSIONS[:1], indirect=True)
def test_every_module_of_the_tree_can_be_imported(from_tree: BaseInstall, tmp_path: Path) -> None:
    assert import_all(from_tree, tmp_path) >= MODULES_AT_LEAST


@pytest.mark.parametrize("from_wheel", ENVIRONMENTS, indirect=True)
def test_every_command_has_its_help(from_wheel: BaseInstall, tmp_path: Path) -> None:
    for command in COMMANDS:
        assert "usage: magnetar" in run(from_wheel.program, "-m", "magnetar", command, "--help", folder=tmp_path)


@pytest.mark.parametrize("from_wheel", ENVIRONMENTS, indirect=True)
def test_the_official_client_uses_every_capability(from_wheel: BaseInstall, tmp_path: Path) -> None:
    program = " ".join(from_wheel.program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "tests")]
    done = subprocess.run(
        [*command, *CAPABILITIES],
        cwd=ROOT,
        env={**os.environ, INTERPRETER_VARIABLE: program},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("from_wheel", VERSIONS[:1], indirect=True)
async def test_no_route_fails(from_wheel: BaseInstall, tmp_path: Path) -> None:
    """Makes the calls of Apache's captures, and then calls each route with random arguments."""
    rng = random.Random(SEED)
    failures = []
    async with Server(tmp_path, product=Magnetar(from_wheel.program), settings=SETTINGS) as server:
        replay = await ask_everything(server.web_url, server.broker_url)
        failures += [str(each) for each in replay.mismatches if each.got_status == 500]
        async with aiohttp.ClientSession() as session:
            for route in (route for route in ROUTES if route.path != ENDS_THE_SERVER):
                for _ in range(CALLS_PER_ROUTE):
                    path, body = path_of(route.path, rng), rng.choice(BODIES)
                    called = URL(server.web_url + path, encoded=True)
                    async with session.request(route.method, called, data=body, allow_redirects=False) as answer:
                        if answer.status == 500:
                            failures.append(f"{route.method} {path} {body}: {await answer.text(errors='replace')}")
        server.assert_no_errors()
    assert not failures, "\n" + "\n".join(each[:400] for each in failures)


@pytest.mark.parametrize("from_wheel", VERSIONS[:1], indirect=True)
def test_a_cluster_of_bookies_works(from_wheel: BaseInstall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = from_wheel.program
    monkeypatch.setenv(INTERPRETER_VARIABLE, " ".join(program))
    with running(tmp_path) as zookeeper:
        bk = ("-m", "magnetar", "bk", "--metadata-service-uri", f"zk+hierarchical://{zookeeper.address}/ledgers")
        run(program, *bk, "initnewcluster", folder=tmp_path)
        bookie = OurBookie(tmp_path / "bookie", zookeeper.address, {"autoRecoveryDaemonEnabled": "true"})
        try:
            bookie.start()
            simple = ("simpletest", "-e", "1", "-w", "1", "-a", "1", "-n", "10")
            run(program, *bk, *simple, folder=tmp_path)
            assert bookie.bookie_id in run(program, *bk, "whoisauditor", folder=tmp_path)
            bookie.stop()
        finally:
            bookie.kill()
