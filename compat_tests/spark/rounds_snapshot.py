"""Rounds of killing snapshot_table: the table says of each key what the client's reader says, whatever was killed."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds

from compat_tests.python.rest import Admin
from compat_tests.spark.kill_rounds import Scene, partitions_of
from compat_tests.spark.rounds_lake import table_of

MESSAGES, LATER = 1500, 400
KEYS = 100


class Rounds:
    """Makes any kind of table from updates and deletes. Partitions are added while the job is killed, so that keys move
    to others."""

    while_killed: Sequence[str] = ("--trigger", "100 milliseconds", "--max-messages", "150")

    def prepare(self, scene: Scene) -> None:
        self._scene = scene
        on_stores = ["delta", "iceberg"]
        self._merge = scene.chance.choice(["parquet-overwrite", *on_stores] if scene.store is None else on_stores)
        self._partitions = scene.chance.randint(1, 3)
        Admin(scene.server).put(partitions_of(scene.topic), self._partitions)
        scene.maybe_trimmed("snapshot")
        self._sent = 0
        self._send(MESSAGES)

    def _send(self, count: int) -> None:
        chance = self._scene.chance
        producer = self._scene.client.create_producer(self._scene.topic, block_if_queue_full=True)
        for number in range(self._sent, self._sent + count):
            body = b"" if chance.random() < 0.2 else b"%d" % number
            producer.send_async(body, None, partition_key=f"k{chance.randrange(KEYS)}")
        producer.flush()
        producer.close()
        self._sent += count
        self._scene.contents(self._scene.topic)

    def arguments(self) -> list[str]:
        places = ["--path", self._scene.path("table"), "--checkpoint", self._scene.path("checkpoint"), "--check"]
        return ["--topic", self._scene.topic, "--subscription", "snapshot", "--merge", self._merge, *places]

    def meanwhile(self, scene: Scene) -> None:
        if scene.chance.random() < 0.3:
            self._partitions += 1
            Admin(scene.server).post(partitions_of(scene.topic), self._partitions)
        self._send(LATER)

    def judge(self, outcome: dict[str, Any]) -> list[str]:
        last: dict[tuple[str, str], Any] = {}
        for message in self._scene.contents(self._scene.topic):
            last[message.partition_key(), message.topic_name()] = message
        expected: dict[str, bytes] = {}
        for (key, _), message in sorted(last.items(), key=lambda item: item[1].publish_timestamp()):
            expected[key] = message.data()
        expected = {key: value for key, value in expected.items() if value}
        table = self._table()
        keys, values = table["key"].to_pylist(), table["value"].to_pylist()
        found = dict(zip(keys, values, strict=True))
        complaints = [f"{len(keys) - len(found)} keys are there more than once"] if len(found) != len(keys) else []
        if missing := len(set(expected) - set(found)):
            complaints.append(f"{missing} keys are not in the table")
        if back := len(set(found) - set(expected)):
            complaints.append(f"{back} deleted keys are in the table")
        if older := sum(found[key] != value for key, value in expected.items() if key in found):
            complaints.append(f"{older} rows are not the latest")
        return [*complaints, *outcome["problems"]]

    def _table(self) -> pa.Table:
        if self._merge in ("delta", "iceberg"):
            return table_of(self._scene, self._merge, "pulsar.snapshot")
        place = self._scene.folder / "table"
        version = json.loads((place / "_latest.json").read_text())["version"]
        return pds.dataset(str(place / f"version={version:08d}"), format="parquet").to_table()
