"""`magnetar spark lake_ingest` as a user runs it: killed, restarted, checked against the official client."""

import json
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark.jobs.lake_ingest import main
from tests.spark.killing import JobProcess
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]


def produce(scene: Scene, topic: str, count: int, first: int = 0) -> None:
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for number in range(first, first + count):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


def arguments(scene: Scene, topic: str, folder: Path, *more: str) -> list[str]:
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--topic", topic]
    places = ["--path", str(folder / "table"), "--checkpoint", str(folder / "checkpoint")]
    return [*place, *places, "--progress", "json", *more]


def outcome(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return found


def ids_of(scene: Scene, topic: str) -> set[tuple[int, int, int]]:
    messages = [message.message_id() for message in scene.contents(topic)]
    return {(each.ledger_id(), each.entry_id(), each.batch_index()) for each in messages}


def ids_in(rows: list[Any]) -> list[tuple[int, int, int]]:
    found = [pulsar.MessageId.deserialize(bytes(row["__messageId"])) for row in rows]
    return [(each.ledger_id(), each.entry_id(), each.batch_index()) for each in found]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_second_run_adds_only_what_is_new(
    scene: Scene, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"persistent://public/default/lake-{kind}"
    options = ["--format", kind, "--subscription", "lake", "--partition-by", "day"]
    produce(scene, topic, 100)
    assert main(arguments(scene, topic, tmp_path, *options)) == 0
    assert outcome(capsys)["written"] == 100
    produce(scene, topic, 50, first=100)
    assert main(arguments(scene, topic, tmp_path, *options)) == 0
    said = outcome(capsys)
    assert (said["read"], said["written"], said["details"]["rows in the table"]) == (50, 50, 150)
    assert main(arguments(scene, topic, tmp_path, *options)) == 0
    assert outcome(capsys)["read"] == 0


def test_a_batch_repeated_after_its_table_was_written_is_not_added_again(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("parquet", "delta", "iceberg"):
        topic, folder = f"persistent://public/default/again-{kind}", tmp_path / kind
        produce(scene, topic, 30)
        assert main(arguments(scene, topic, folder, "--format", kind)) == 0
        for path in (folder / "checkpoint" / "commits").iterdir():
            path.unlink()  # as if the driver was killed between the table's commit and its own
        assert main(arguments(scene, topic, folder, "--format", kind)) == 0
        said = outcome(capsys)
        assert said["details"]["rows in the table"] == 30
        assert said["problems"] == []


class Reading(pulsar.schema.Record):  # type: ignore[misc]
    level = pulsar.schema.Integer()


def test_a_poison_record_is_parked_and_the_rest_goes_on(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "persistent://public/default/poison"
    producer = scene.client.create_producer(topic, schema=pulsar.schema.JsonSchema(Reading))
    for number in range(10):
        producer.send(Reading(level=number))
    raw = scene.client.create_producer(topic, schema=pulsar.schema.BytesSchema())
    raw.send(b"{not json")
    assert main(arguments(scene, topic, tmp_path)) == 0
    said = outcome(capsys)
    assert (said["read"], said["written"], said["parked"]) == (11, 10, 1)
    (parked,) = scene.session.read.parquet(f"{tmp_path}/table_parked").collect()
    assert bytes(parked["__corrupt"]) == b"{not json"
    levels = scene.session.read.parquet(f"{tmp_path}/table").select("level").collect()
    assert sorted(row.level for row in levels) == list(range(10))


def test_an_empty_topic_gives_no_table_and_no_error(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "persistent://public/default/lake-empty"
    scene.client.create_producer(topic).close()
    assert main(arguments(scene, topic, tmp_path)) == 0
    assert outcome(capsys)["read"] == 0


def test_a_folder_of_another_checkpoint_is_refused(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "persistent://public/default/owner"
    produce(scene, topic, 5)
    assert main(arguments(scene, topic, tmp_path)) == 0
    other = [*arguments(scene, topic, tmp_path), "--checkpoint", str(tmp_path / "other")]
    assert main(other) == 1
    assert "was written with another checkpoint" in capsys.readouterr().err


def test_killed_driver_and_killed_server_change_nothing(scene: Scene, tmp_path: Path) -> None:
    topic = "persistent://public/default/lake-killed"
    produce(scene, topic, 300)
    options = arguments(scene, topic, tmp_path, "--subscription", "killed", "--format", "delta")
    with JobProcess("lake_ingest", [*options, "--trigger", "100 milliseconds", "--max-messages", "40"]) as victim:
        victim.until_batch(1)
        scene.server.kill()
        victim.kill()
    scene.server.start()
    produce(scene, topic, 100, first=300)
    with JobProcess("lake_ingest", options) as job:
        job.result()
    import deltalake

    table = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert sorted(int(value) for value in table["value"].to_pylist()) == list(range(400))
    found = ids_in(table.to_pylist())
    assert len(found) == len(set(found))
