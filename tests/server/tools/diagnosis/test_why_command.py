"""`magnetar why` against a real server with real clients: what it prints, and its exit codes."""

import json
from pathlib import Path

import pulsar
import pytest

from magnetar.server.commands.main import main
from magnetar.server.tools.diagnosis.why_text import why_text
from tests.server.served import Served, serving

TOPIC = "persistent://public/default/orders"


def client_of(served: Served) -> pulsar.Client:
    return pulsar.Client(f"pulsar://127.0.0.1:{served.port}")


def why(served: Served, *words: str) -> int:
    return main(["why", *words, "--admin-url", served.web_url])


def test_a_clear_way_a_block_and_a_wrong_name_have_their_own_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as served:
        client = client_of(served)
        consumer = client.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared)
        producer = client.create_producer(TOPIC)
        assert why(served, "orders", "billing") == 0
        assert "subscription billing (Shared, 1 consumer): nothing stands in the way" in capsys.readouterr().out

        producer.send(b"x")
        message = consumer.receive(30_000)
        assert why(served, TOPIC, "billing") == 1
        assert "1 of 1 entry of the backlog was delivered and is not acknowledged" in capsys.readouterr().out
        consumer.acknowledge(message)
        consumer.close()
        assert why(served, "orders") == 1
        printed = capsys.readouterr().out
        assert "everything waits: No consumer is connected" in printed
        assert "producers (1): nothing stands in the way" in printed

        assert why(served, "orders", "none") == 3
        assert capsys.readouterr().err == "magnetar why: Subscription none not found; the topic has: billing\n"
        client.close()


def test_json_is_the_broker_s_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path) as served:
        client = client_of(served)
        client.subscribe(TOPIC, "billing").close()
        assert why(served, "orders", "billing", "-o", "json") == 1
        printed = json.loads(capsys.readouterr().out)
        asked = served.json("/admin/v2/persistent/public/default/orders/why?subscription=billing")
        client.close()
    codes = [each["code"] for each in printed["subscriptions"]["billing"]["reasons"]]
    assert codes == ["NO_CONSUMER", "NOTHING_TO_READ"]
    assert printed.keys() == asked.keys()


def test_a_cluster_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "orders", "--admin-url", "http://127.0.0.1:1"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("magnetar why: cannot connect to http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["why"], "TOPIC"),
        (["why", "a/b"], "Invalid short topic name 'a/b'"),
        (["why", "t", "s", "--watch", "0"], "'0' is not a number of seconds"),
        (["why", "t", "-o", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_wrong_usage_exits_2(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_name_with_control_characters_stays_one_line_and_moves_no_cursor() -> None:
    reason = {"code": "NO_PERMITS", "holdsBack": "some", "sentence": "Permits: a\x1b[2J\nb (0).", "figures": {}}
    printed = why_text({"topic": "t", "broker": None, "reasons": [reason], "subscriptions": {}})
    assert printed == "t\n  some wait: Permits: a\\x1b[2J\\nb (0). [NO_PERMITS]"


def test_partitions_are_printed_one_below_the_other() -> None:
    def partition(index: int) -> dict[str, object]:
        reason = {"code": "NOT_ANSWERED", "holdsBack": "everything", "sentence": "The broker is away.", "figures": {}}
        return {"topic": f"t-{index}", "broker": None, "reasons": [reason], "subscriptions": {}}

    printed = why_text({"topic": "t", "partitions": {"t-0": partition(0), "t-1": partition(1)}})
    assert printed.splitlines() == [
        "t-0",
        "  everything waits: The broker is away. [NOT_ANSWERED]",
        "",
        "t-1",
        "  everything waits: The broker is away. [NOT_ANSWERED]",
    ]
