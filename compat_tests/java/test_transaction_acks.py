"""Apache's Java client acknowledges messages in transactions (`Transactions.java`): on every type of subscription,
cumulatively, messages of a batch one by one, and the same message in two transactions."""

from collections.abc import Iterator

import pytest

from compat_tests.harness import Server
from compat_tests.java.java_client import JavaClient

pytestmark = pytest.mark.slow

MINUTE = 60_000
SETTINGS = {"transactionCoordinatorEnabled": "true", "acknowledgmentAtBatchIndexLevelEnabled": "true"}
TYPES = ["Exclusive", "Failover", "Shared", "Key_Shared"]
CONFLICT = "ExecutionException TransactionConflictException"


@pytest.fixture(scope="module")
def server(java_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yields a server that only one of the clients uses, because the names of topics are the same for all of them."""
    with Server(tmp_path_factory.mktemp("server"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def java(server: Server, java_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    made = JavaClient("Transactions.java", server.broker_url, tmp_path_factory.mktemp("java"), java_jars)
    assert made.answer() == "ready"
    yield made
    made.close()


def begin(java: JavaClient, *names: str) -> None:
    for name in names:
        assert java.ask(f"begin {name} {MINUTE}").startswith("(0,")


@pytest.mark.parametrize("kind", TYPES)
def test_a_batch_is_acknowledged_message_by_message_in_two_transactions(java: JavaClient, kind: str) -> None:
    topic = f"batch-{kind.lower()}"
    assert java.ask(f"send {topic} - m1 m2 m3") == "sent"
    begin(java, "a", "b")
    assert java.ask(f"take {topic} s {kind} a 1") == "[m1/0]"
    assert java.ask(f"take {topic} s {kind} b 1") == "[m2/0]"
    assert java.ask("commit a") == "committed"
    assert java.ask("abort b") == "aborted"
    assert java.ask(f"leave {topic} s") == "left"
    again = java.ask(f"take {topic} s {kind} - 2")
    assert [each.partition("/")[0] for each in again.strip("[]").split(", ")] == ["m2", "m3"]


@pytest.mark.parametrize("kind", TYPES)
def test_a_message_is_acknowledged_by_one_transaction_only(java: JavaClient, kind: str) -> None:
    topic = f"conflict-{kind.lower()}"
    assert java.ask(f"send {topic} - m1") == "sent"
    begin(java, "a", "b")
    assert java.ask(f"take {topic} s {kind} a 1") == "[m1/0]"
    assert java.ask(f"again {topic} s {kind} b") == CONFLICT
    assert java.ask("commit a") == "committed"
    begin(java, "c")
    assert java.ask(f"again {topic} s {kind} c") == CONFLICT
    assert java.ask(f"send {topic} - m2") == "sent"
    assert java.ask(f"leave {topic} s") == "left"
    assert java.ask(f"take {topic} s {kind} - 1") == "[m2/0]"


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_a_cumulative_acknowledgement_holds_when_its_transaction_commits(java: JavaClient, kind: str) -> None:
    topic = f"cumulative-{kind.lower()}"
    assert java.ask(f"send {topic} - m1 m2 m3 m4") == "sent"
    begin(java, "a", "b")
    assert java.ask(f"reach {topic} s {kind} a 2") == "reached m2"
    assert java.ask(f"reach {topic} s {kind} b 1") == CONFLICT
    assert java.ask("abort a") == "aborted"
    assert java.ask(f"leave {topic} s") == "left"
    begin(java, "c")
    assert java.ask(f"reach {topic} s {kind} c 3") == "reached m3"
    assert java.ask("commit c") == "committed"
    assert java.ask(f"leave {topic} s") == "left"
    assert java.ask(f"take {topic} s {kind} - 1") == "[m4/0]"


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_acknowledgements_outlive_a_kill(java: JavaClient, server: Server, kind: str) -> None:
    topic = f"kill-{kind.lower()}"
    assert java.ask(f"send {topic} - m1 m2 m3 m4") == "sent"
    begin(java, "a", "b", "c")
    assert java.ask(f"take {topic} s {kind} a 1") == "[m1/0]"
    assert java.ask(f"take {topic} s {kind} b 1") == "[m2/0]"
    assert java.ask(f"take {topic} s {kind} c 1") == "[m3/0]"
    assert java.ask("commit a") == "committed"
    server.kill()
    server.start()
    assert java.ask("abort b") == "aborted"
    assert java.ask("commit c") == "committed"
    assert java.ask(f"leave {topic} s") == "left"
    again = java.ask(f"take {topic} s {kind} - 2")
    assert [each.partition("/")[0] for each in again.strip("[]").split(", ")] == ["m2", "m4"]
