"""Apache's Java client uses transactions (`Transactions.java`): messages and acknowledgements of several topics are
visible together or not at all, also after a SIGKILL of the server."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.java.java_client import JavaClient

pytestmark = pytest.mark.slow

MINUTE = 60_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, settings={"transactionCoordinatorEnabled": "true"}) as server:
        yield server


@pytest.fixture
def java(server: Server, java_jars: str, tmp_path: Path) -> Iterator[JavaClient]:
    made = JavaClient("Transactions.java", server.broker_url, tmp_path, java_jars)
    assert made.answer() == "ready"
    yield made
    made.close()


def begin(java: JavaClient, words: str) -> None:
    """Begins a transaction; the answer is its id."""
    assert re.fullmatch(r"\(\d+,\d+\)", java.ask(words))


def test_a_commit_shows_messages_and_acknowledgements_together(java: JavaClient) -> None:
    assert java.ask("send in - m1 m2 m3") == "sent"
    begin(java, f"begin a {MINUTE}")
    assert java.ask("send out a t1 t2") == "sent"
    assert java.ask("take in s Shared a 2") == "[m1/0, m2/0]"
    assert java.ask("commit a") == "committed"
    assert java.ask("take out s Exclusive - 2") == "[t1/0, t2/0]"
    assert java.ask("leave in s") == "left"
    assert java.ask("take in s Shared - 1") == "[m3/0]"


def test_an_abort_hides_the_messages_and_gives_the_acknowledged_ones_again(java: JavaClient) -> None:
    assert java.ask("send in - m1") == "sent"
    begin(java, f"begin a {MINUTE}")
    assert java.ask("send out a hidden") == "sent"
    assert java.ask("send out - shown") == "sent"
    assert java.ask("take in s Shared a 1") == "[m1/0]"
    assert java.ask("abort a") == "aborted"
    assert java.ask("take out s Exclusive - 1") == "[shown/0]"
    assert java.ask("take in s Shared - 1") == "[m1/1]"


def test_a_transaction_that_nobody_ends_times_out_and_stands_in_nobodys_way(java: JavaClient) -> None:
    begin(java, "begin a 300")
    java.ask("send out a late")  # is refused if the time is over already
    assert java.ask("send out - shown") == "sent"
    assert java.ask("take out s Exclusive - 1") == "[shown/0]"
    assert java.ask("commit a").startswith("ExecutionException ")


def test_after_a_kill_open_transactions_go_on(java: JavaClient, server: Server) -> None:
    assert java.ask("send in - m1 m2") == "sent"
    begin(java, f"begin a {MINUTE}")
    begin(java, f"begin b {MINUTE}")
    assert java.ask("send out a t1") == "sent"
    assert java.ask("send out b t2") == "sent"
    assert java.ask("take in s Shared a 1") == "[m1/0]"
    server.kill()
    server.start()
    assert java.ask("send out a t3") == "sent"
    assert java.ask("commit a") == "committed"
    assert java.ask("abort b") == "aborted"
    assert java.ask("take out s Exclusive - 2") == "[t1/0, t3/0]"
    assert java.ask("take in s Shared - 1") == "[m2/0]"
