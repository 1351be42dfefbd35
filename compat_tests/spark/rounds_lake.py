"""Rounds of killing for lake_ingest: each message is in the table once, with its bytes, whatever was killed."""

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import deltalake
import pulsar
import pyarrow as pa
import pyarrow.dataset as pds
from pyiceberg.catalog.sql import SqlCatalog

from compat_tests.python.rest import Admin
from compat_tests.spark.kill_rounds import Scene, entry_id, partitions_of

MESSAGES, LATER = 2000, 500
KEYS = 50


class Rounds:
    """Makes tables of any format, with and without partitions and compaction. Partitions are added to the topic while
    the job is killed."""

    while_killed: Sequence[str] = ("--trigger", "100 milliseconds", "--max-messages", "100")

    def prepare(self, scene: Scene) -> None:
        self._scene = scene
        self._format = scene.chance.choice(["parquet", "delta", "iceberg"])
        self._partitions = scene.chance.randint(1, 3)
        self._options = ["--partition-by", scene.chance.choice(["none", "day"])]
        compacts = self._format == "delta" or (self._format == "parquet" and scene.store is None)
        if compacts and scene.chance.random() < 0.5:
            self._options.append("--compact-files")
        Admin(scene.server).put(partitions_of(scene.topic), self._partitions)
        scene.maybe_trimmed("lake")
        self._sent = 0
        self._send(MESSAGES)

    def _send(self, count: int) -> None:
        producer = self._scene.client.create_producer(
            self._scene.topic,
            batching_enabled=self._scene.chance.random() < 0.5,
            batching_max_messages=self._scene.chance.randint(2, 20),
            block_if_queue_full=True,
        )
        for number in range(self._sent, self._sent + count):
            producer.send_async(b"%d" % number, None, partition_key=f"k{number % KEYS}")
        producer.flush()
        producer.close()
        self._sent += count
        self._scene.contents(self._scene.topic)

    def arguments(self) -> list[str]:
        places = ["--path", self._scene.path("table"), "--checkpoint", self._scene.path("checkpoint")]
        return [
            "--topic",
            self._scene.topic,
            "--subscription",
            "lake",
            "--format",
            self._format,
            *places,
            *self._options,
        ]

    def meanwhile(self, scene: Scene) -> None:
        if scene.chance.random() < 0.3:
            self._partitions += 1
            Admin(scene.server).post(partitions_of(scene.topic), self._partitions)
        self._send(LATER)

    def judge(self, outcome: dict[str, Any]) -> list[str]:
        expected = {
            entry_id(each.message_id()): zlib.crc32(each.data()) for each in self._scene.contents(self._scene.topic)
        }
        table = table_of(self._scene, self._format, "pulsar.messages")
        ids = [entry_id(pulsar.MessageId.deserialize(each)) for each in table["__messageId"].to_pylist()]
        found = dict(zip(ids, (zlib.crc32(value) for value in table["value"].to_pylist()), strict=True))
        complaints = []
        if len(expected) != self._sent:
            complaints.append(f"the client reads {len(expected)} of {self._sent} messages")
        if missing := len(set(expected) - set(found)):
            complaints.append(f"{missing} messages are not in the table")
        if unknown := len(set(found) - set(expected)):
            complaints.append(f"{unknown} rows are no messages of the topic")
        if repeated := sum(number - 1 for number in Counter(ids).values()):
            complaints.append(f"{repeated} rows are there more than once")
        if any(expected.get(each, crc) != crc for each, crc in found.items()):
            complaints.append("a row differs from its message")
        return [*complaints, *outcome["problems"]]


def table_of(scene: Scene, kind: str, name: str) -> pa.Table:
    """Returns the table's rows as the tools read them that people use for such tables. `name` is the name of an Iceberg
    table."""
    if scene.store is not None:
        return scene.store.table(kind, f"{scene.folder.name}/table", name)
    place = scene.folder / "table"
    if kind == "delta":
        return deltalake.DeltaTable(str(place)).to_pyarrow_table()
    if kind == "iceberg":
        catalog = SqlCatalog("magnetar", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
        return catalog.load_table(name).scan().to_arrow()
    return pds.dataset(str(place), format="parquet", partitioning="hive").to_table()
