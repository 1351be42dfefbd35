"""`snapshot_table` against the latest values that the official client sees."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from spark.jobs.snapshot_table import main
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"


def run(
    scene: Scene, topic: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(outcome, rows by key)."""
    place = ["--service-url", scene.server.broker_url, "--topic", topic, "--progress", "json", "--check"]
    code = main([*place, "--path", str(folder / "table"), "--checkpoint", str(folder / "ck"), *more])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    version = json.loads((folder / "table" / "_latest.json").read_text())["version"]
    rows = scene.session.read.parquet(str(folder / "table" / f"version={version:08d}")).collect()
    assert len({row.key for row in rows}) == len(rows)
    return json.loads(captured.out.strip().splitlines()[-1]), {row.key: row.asDict() for row in rows}


def test_the_latest_value_of_each_key_over_runs_and_repeated_batches(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{PREFIX}/snapshot"
    chance = random.Random(3)
    producer = scene.client.create_producer(topic)
    for round_number in range(2):
        for number in range(200):
            producer.send_async(b"%d-%d" % (round_number, number), None, partition_key=f"k{chance.randrange(30)}")
        producer.flush()
        run(scene, topic, tmp_path, capsys)
    (tmp_path / "ck" / "commits" / "1").unlink()  # the driver dies before it writes the batch down: it comes again
    (tmp_path / "ck" / "commits" / ".1.crc").unlink(missing_ok=True)
    _, rows = run(scene, topic, tmp_path, capsys)
    expected = {message.partition_key(): message.data() for message in scene.contents(topic)}
    assert {key: bytes(row["value"]) for key, row in rows.items()} == expected


def test_debezium_changes_insert_update_and_delete(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{PREFIX}/changes"
    producer = scene.client.create_producer(topic)

    def change(op: str, before: object, after: object, *, wrapped: bool) -> None:
        body = {"op": op, "before": before, "after": after, "source": {"lsn": 1}}
        producer.send(json.dumps({"payload": body} if wrapped else body).encode())

    for number in range(5):
        change("c", None, {"id": number, "name": f"n{number}"}, wrapped=number % 2 == 0)
    change("u", {"id": 1, "name": "n1"}, {"id": 1, "name": "new"}, wrapped=True)
    change("d", {"id": 2, "name": "n2"}, None, wrapped=False)
    options = ["--format", "debezium", "--json-schema", "id long, name string", "--key", "id"]
    _, rows = run(scene, topic, tmp_path, capsys, *options)
    assert {key: row["name"] for key, row in rows.items()} == {"0": "n0", "1": "new", "3": "n3", "4": "n4"}
    change("d", {"id": 0, "name": "n0"}, None, wrapped=True)
    said, rows = run(scene, topic, tmp_path, capsys, *options)
    assert sorted(rows) == ["1", "3", "4"]
    assert said["details"]["rows in the table"] == 3
