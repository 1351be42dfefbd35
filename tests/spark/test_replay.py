"""`replay`: ranges and dead letters again, once, with nothing outside the range."""

import json
from typing import Any

import pulsar
import pytest

from spark.jobs.replay import main
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"


def run(scene: Scene, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    code = main(["--service-url", scene.server.broker_url, "--progress", "json", *more])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    said: dict[str, Any] = json.loads(captured.out.strip().splitlines()[-1])
    return said


def test_a_range_is_sent_again_once_although_the_run_is_repeated(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, target = f"{PREFIX}/replay-in", f"{PREFIX}/replay-out"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"%d" % number, partition_key=f"k{number % 2}") for number in range(30)]
    bounds = [f"{ids[at].ledger_id()}:{ids[at].entry_id()}" for at in (5, 24)]
    options = ["--topic", topic, "--to-topic", target, "--from-id", bounds[0], "--to-id", bounds[1]]
    options += ["--filter", "string(__key) = 'k1'"]
    planned = run(scene, capsys, *options, "--dry-run")
    assert (planned["read"], planned["written"], planned["details"]["would write"]) == (20, 0, 10)
    for _ in range(2):
        said = run(scene, capsys, *options, "--run-id", "r1", "--rate", "100")
        assert (said["read"], said["skipped"], said["written"]) == (20, 10, 10)
    copies = scene.contents(target)
    assert sorted(int(copy.data()) for copy in copies) == list(range(5, 25, 2))
    for copy in copies:
        origin = pulsar.MessageId.deserialize(bytes.fromhex(copy.properties()["src_mid"]))
        assert origin == ids[int(copy.data())]
        assert copy.properties()["src_topic"] == topic
        assert copy.partition_key() == "k1"


def test_dead_letters_go_back_once_and_are_parked_after_too_many_attempts(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, park = f"{PREFIX}/orders", f"{PREFIX}/orders-parked"
    dead = scene.client.create_producer(f"{topic}-billing-DLQ")
    dead.send(b"first", properties={"REAL_TOPIC": topic})
    dead.send(b"often", properties={"REAL_TOPIC": topic, "replay_attempts": "3"})
    options = ["--dlq-of", f"{topic}:billing", "--max-attempts", "3", "--park-topic", park]
    said = run(scene, capsys, *options)
    assert (said["read"], said["written"], said["parked"]) == (2, 1, 1)
    dead.send(b"second", properties={"REAL_TOPIC": topic})
    said = run(scene, capsys, *options)
    assert (said["read"], said["written"], said["parked"]) == (1, 1, 0)
    assert [copy.data() for copy in scene.contents(topic)] == [b"first", b"second"]
    assert [copy.data() for copy in scene.contents(park)] == [b"often"]
    assert scene.contents(topic)[0].properties()["replay_attempts"] == "1"


def test_bad_arguments_are_named(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--service-url", scene.server.broker_url]
    assert main([*place, "--topic", "a", "--to-topic", "b", "--from-time", "soon"]) == 1
    assert "'soon' is neither milliseconds nor an ISO time" in capsys.readouterr().err
    assert main([*place, "--dlq-of", "orders"]) == 1
    assert "expected TOPIC:SUBSCRIPTION" in capsys.readouterr().err
