"""Apache's Go client against our server. A Go program runs the checks and prints `name=ok` for each."""

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests.conftest import ServerFactory
from compat_tests.security_site import running_site

FOLDER = Path(__file__).parent
DEADLINE_SECONDS = 300
KILLS = 3
RECEIPTS_BETWEEN_KILLS = 100

pytestmark = pytest.mark.slow


def names_in(*files: str) -> set[str]:
    """Returns the names of the checks in these sources."""
    text = "".join((FOLDER / file).read_text() for file in files)
    return set(re.findall(r'^\s+\{"(\w+)", ', text, re.MULTILINE))


def run(program: Path, *arguments: str) -> dict[str, str]:
    """Runs the program and returns what it printed for each check."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def assert_all_right(said: dict[str, str], names: set[str]) -> None:
    assert {name: text for name, text in said.items() if text != "ok"} == {}
    assert set(said) == names


def test_everything_that_the_go_client_has(program: Path, make_server: ServerFactory) -> None:
    """Transactions are off, because one check is what a client is told then."""
    server = make_server(settings={"transactionCoordinatorEnabled": "false"})
    server.start()
    files = ("producing.go", "consuming.go", "subscribing.go", "reading.go", "topics.go", "schemas.go")
    assert_all_right(run(program, "checks", server.broker_url, server.web_url), names_in(*files))


def test_transactions_of_the_go_client(program: Path, make_server: ServerFactory) -> None:
    server = make_server(settings={"transactionCoordinatorEnabled": "true"})
    server.start()
    assert_all_right(run(program, "transactions", server.broker_url), names_in("transactions.go"))


def test_the_go_client_says_who_it_is(program: Path, tmp_path: Path) -> None:
    with running_site(tmp_path) as site:
        for role in ("alice", "bob", "dave"):
            (tmp_path / f"{role}.token").write_text(site.token(role))
        (tmp_path / "over.token").write_text(site.token("dave", -60))
        address = site.server.address
        urls = [each.replace("127.0.0.1", "localhost") for each in (address.broker_url_tls, address.web_url_tls)]
        said = run(program, "secure", address.broker_url, *urls, str(tmp_path))
        assert_all_right(said, names_in("secure.go"))


def test_the_go_client_loses_nothing_when_the_server_is_killed(program: Path, make_server: ServerFactory) -> None:
    server = make_server()
    server.start()
    with subprocess.Popen(
        [program, "follow", server.broker_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as following:

        def ask(words: str) -> str:
            assert following.stdin is not None
            assert following.stdout is not None
            following.stdin.write(f"{words}\n")
            following.stdin.flush()
            return following.stdout.readline().strip()

        assert following.stdout is not None
        assert following.stdout.readline().strip() == "ready"
        for _ in range(KILLS):
            wanted = int(ask("how many")) + RECEIPTS_BETWEEN_KILLS
            while int(ask("how many")) < wanted:
                pass
            server.kill()
            server.start()
        assert ask("stop") == "kept=ok"
