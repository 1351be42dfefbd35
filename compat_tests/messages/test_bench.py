"""`magnetar bench`: its figures count what really went through, and nothing of it stays behind."""

import csv
import json
from pathlib import Path

import pulsar

from compat_tests.harness import Server
from compat_tests.messages.commands import done, refused, run
from compat_tests.python.rest import Admin
from compat_tests.python.support import bodies, send_all


def topics(server: Server) -> list[str]:
    return [name for name in Admin(server).get("persistent/public/default") if "/bench-" in name]


def test_all_clients_and_their_sum_are_reported_and_the_topic_is_removed(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "bench.csv"
    words = ("--messages", "2001", "--size", "100", "--producers", "2", "--consumers", "3", "--processes", "2")
    text = done(server, "bench", "both", *words, "--remove", "--csv", str(file)).decode().splitlines()
    assert text[0].startswith("bench both persistent://public/default/bench-")
    for setting in ("2,001 messages", "100 B", "producers 2", "consumers 3", "rate unlimited", "processes 2"):
        assert setting in text[0]
    names = [line.split("  ")[0] for line in text[1:]]
    assert names == ["producer 1", "producer 2", "producers", "consumer 1", "consumer 2", "consumer 3", "consumers"]
    assert all("p50" in line and "p99.9" in line and "max" in line for line in (text[3], text[7]))
    with file.open() as rows:
        found = {row["client"]: row for row in csv.DictReader(rows)}
    assert [found[f"producer {number}"]["messages"] for number in (1, 2)] == ["1001", "1000"]
    assert sum(int(found[f"consumer {number}"]["messages"]) for number in (1, 2, 3)) == 2001
    assert float(found["producer 1"]["p50Ms"]) <= float(found["producer 1"]["maxMs"])
    assert topics(server) == []


def test_json_and_a_duration_at_a_rate(server: Server, topic: str, client: pulsar.Client) -> None:
    words = ("--duration", "1s", "--rate", "200", "--size", "50", "-o", "json")
    result = json.loads(done(server, "bench", "pub", topic, *words))
    count = result["producers"]["messages"]
    assert 0 < count <= 202
    assert result["settings"]["sizeBytes"] == 50
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [len(reader.read_next(60_000).data()) for _ in range(count)] == [50] * count
    assert not reader.has_message_available()


def test_consumers_take_as_many_as_they_were_asked_for_and_their_subscription_goes(
    server: Server, topic: str, client: pulsar.Client
) -> None:
    send_all(client.create_producer(topic), bodies(300))
    result = json.loads(done(server, "bench", "sub", topic, "--messages", "200", "--consumers", "2", "-o", "json"))
    assert result["consumers"]["messages"] == 200
    assert result["consumers"]["p50Ms"] is None
    assert Admin(server).get(f"{topic.replace('://', '/')}/subscriptions") == []


def test_faults_are_one_sentence_and_exit_code_1(server: Server, tmp_path: Path) -> None:
    assert "persistent://public/absent/t: " in refused(run(server, "bench", "sub", "public/absent/t"))
    line = refused(run(server, "bench", "pub", "--csv", str(tmp_path / "absent" / "x")))
    assert line == f"magnetar bench: --csv: {tmp_path}/absent/x: No such file or directory"
