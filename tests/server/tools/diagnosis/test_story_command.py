"""`magnetar story` against a real server with a real client: what it prints, and its exit codes."""

import json
from pathlib import Path

import pulsar
import pytest

from magnetar.server.commands.main import main
from tests.server.served import Served, serving

TOPIC = "persistent://public/default/orders"


def story(served: Served, *words: str) -> int:
    return main(["story", *words, "--admin-url", served.web_url])


def test_a_message_is_told_about_in_words_and_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path) as served:
        client = pulsar.Client(f"pulsar://127.0.0.1:{served.port}")
        client.subscribe(TOPIC, "billing").close()
        message_id = client.create_producer(TOPIC).send(b"12345")
        shown = f"{message_id.ledger_id()}:{message_id.entry_id()}"
        assert story(served, "orders", shown) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"message {shown}: ")
        assert "subscription billing (Exclusive): waiting. It waits: the subscription has no consumer." in printed
        assert story(served, TOPIC, f"{shown}:0", "-o", "json") == 0
        assert json.loads(capsys.readouterr().out)["id"] == f"{shown}:0"
        client.close()


def test_a_message_that_is_not_there_and_an_id_that_is_none_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as served:
        client = pulsar.Client(f"pulsar://127.0.0.1:{served.port}")
        client.create_producer(TOPIC)
        assert story(served, "orders", "999:0") == 3
        assert capsys.readouterr().err == "magnetar story: The topic has no message 999:0\n"
        with pytest.raises(SystemExit) as refused:
            story(served, "orders", "12-0")
        assert refused.value.code == 2
        assert "'12-0' is no message id such as 12:0 or 12:0:3" in capsys.readouterr().err
        client.close()
