"""`magnetar spark lake_ingest` as a user runs it: killed, restarted, checked against the official client."""

import json
import random
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pulsar
import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from pulsar.schema import BytesSchema, Integer, JsonSchema, Record, String
from pyiceberg.catalog.sql import SqlCatalog

from compat_tests.python.rest import Admin
from compat_tests.small_disk import small_disk
from compat_tests.spark.job_process import JobProcess
from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.lake.lake_ingest import main
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import local_folder
from magnetar.spark.jobs.tables.delta import DeltaTable
from magnetar.spark.jobs.tables.iceberg_catalog import open_catalog
from magnetar.spark.jobs.tables.parquet import INTENT_FILE, MERGED, REPLACED, ParquetTable
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"
ROUND_ROBIN = pulsar.PartitionsRoutingMode.RoundRobinDistribution
Capture = pytest.CaptureFixture[str]


def produce(scene: Scene, topic: str, count: int, first: int = 0, **more: Any) -> None:
    producer = scene.client.create_producer(topic, **more)
    for number in range(first, first + count):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


def keep(scene: Scene, topic: str) -> None:
    """Keeps a topic and its messages when nobody else uses it."""
    scene.client.subscribe(topic, "keeper", initial_position=pulsar.InitialPosition.Earliest).close()


def arguments(scene: Scene, topic: str, folder: Path, *more: str) -> list[str]:
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--topic", topic]
    places = ["--path", str(folder / "table"), "--checkpoint", str(folder / "checkpoint")]
    return [*place, *places, "--progress", "json", *more]


def run(scene: Scene, topic: str, folder: Path, capsys: Capture, *more: str, code: int = 0) -> dict[str, Any]:
    """Runs the job and returns its outcome. When it prints none, returns the last line on stderr."""
    assert main(arguments(scene, topic, folder, *more)) == code
    said = capsys.readouterr()
    if not said.out.strip():
        return {"error": said.err.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(said.out.strip().splitlines()[-1])
    return found


Ids = tuple[int, int, int, int]


def id_of(message_id: pulsar.MessageId) -> Ids:
    return message_id.partition(), message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


def crcs_in_topic(scene: Scene, topic: str) -> dict[Ids, int]:
    return {id_of(each.message_id()): zlib.crc32(each.data()) for each in scene.contents(topic)}


def table_of(kind: str, folder: Path) -> pa.Table:
    """Returns the table as the tools read it that people use for such tables."""
    if kind == "delta":
        return deltalake.DeltaTable(str(folder / "table")).to_pyarrow_table()
    if kind == "iceberg":
        place = folder / "table"
        catalog = SqlCatalog("magnetar", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
        return catalog.load_table("pulsar.messages").scan().to_arrow()
    return pds.dataset(str(folder / "table"), format="parquet", partitioning="hive").to_table()


def ids_in(table: pa.Table) -> list[Ids]:
    return [id_of(pulsar.MessageId.deserialize(each)) for each in table["__messageId"].to_pylist()]


class First(Record):  # type: ignore[misc]
    level = Integer()


class Second(Record):  # type: ignore[misc]
    level = Integer()
    unit = String(required_default=True)


def write_records(scene: Scene, topic: str, kind: type[Record], **fields: Any) -> None:
    producer = scene.client.create_producer(topic, schema=JsonSchema(kind), batching_enabled=True)
    for number in range(30):
        producer.send_async(kind(level=number, **fields), None)
    producer.flush()
    producer.close()


LAKES = [pytest.param(kind, marks=pytest.mark.long) for kind in ("delta", "iceberg")]


@pytest.mark.parametrize("kind", ["parquet", *LAKES])
def test_each_message_once_over_runs_repeated_batches_and_a_schema_that_grows(
    scene: Scene, tmp_path: Path, kind: str, capsys: Capture
) -> None:
    topic = f"{PREFIX}/lake-{kind}"
    options = ["--format", kind, "--subscription", "lake", "--partition-by", "day"]
    keep(scene, topic)
    write_records(scene, topic, First)
    assert run(scene, topic, tmp_path, capsys, *options)["written"] == 30
    for path in (tmp_path / "checkpoint" / "commits").iterdir():
        path.unlink()  # the driver might have been killed between the table's commit and its own
    said = run(scene, topic, tmp_path, capsys, *options)
    assert (said["read"], said["written"], said["skipped"], said["details"]["rows in the table"]) == (30, 0, 30, 30)
    write_records(scene, topic, Second, unit="m")
    refused = run(scene, topic, tmp_path, capsys, *options, code=1)["error"]
    assert "the table has no column unit, the topic has" in refused
    more = [] if kind == "iceberg" else ["--compact-files"]
    said = run(scene, topic, tmp_path, capsys, *options, "--schema", "evolve", "--check", "table", *more)
    assert (said["read"], said["written"], said["details"]["rows in the table"]) == (30, 30, 60)
    assert said["details"]["files in the table"] == (2 if kind == "iceberg" else 1)
    table = table_of(kind, tmp_path)
    assert sorted(ids_in(table)) == sorted(crcs_in_topic(scene, topic))
    assert sorted(table["unit"].to_pylist(), key=str) == [None] * 30 + ["m"] * 30
    days = {str(time.date()) for time in table["__publishTime"].to_pylist()}
    assert {str(day) for day in table["message_day"].to_pylist()} == days
    look = ["--check", "table"]  # a run that has nothing to read does not look at the table unless it is told to
    said = run(scene, topic, tmp_path, capsys, *options, "--schema", "evolve", *look)
    assert (said["read"], said["details"]["rows in the table"]) == (0, 60)
    refused = run(scene, topic, tmp_path, capsys, "--format", kind, "--partition-by", "hour", *look, code=1)["error"]
    assert "is partitioned by message_day, --partition-by asks for message_hour" in refused


@pytest.mark.parametrize("kind", ["parquet", *LAKES])
def test_a_table_that_is_gone_is_named_and_a_new_checkpoint_makes_it_again(
    scene: Scene, tmp_path: Path, kind: str, capsys: Capture
) -> None:
    topic = f"{PREFIX}/gone-{kind}"
    keep(scene, topic)
    produce(scene, topic, 10)
    kinds = ["--format", kind]
    assert run(scene, topic, tmp_path, capsys, *kinds)["written"] == 10
    (tmp_path / "table").rename(tmp_path / "elsewhere")
    for more in (0, 10):  # with nothing to read, and with something
        produce(scene, topic, more, first=10)
        refused = run(scene, topic, tmp_path, capsys, *kinds, code=1)["error"]
        assert f"there is no table in {tmp_path / 'table'}" in refused
        assert "put the table back, or begin with a new --checkpoint" in refused
        assert not (tmp_path / "table").exists()
    shutil.rmtree(tmp_path / "checkpoint")
    assert run(scene, topic, tmp_path, capsys, *kinds)["written"] == 20


def test_a_checkpoint_that_has_only_parked_messages_expects_no_table(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/only-poison"
    scene.client.create_producer(topic, schema=JsonSchema(First)).close()
    keep(scene, topic)
    raw = scene.client.create_producer(topic, schema=BytesSchema())
    for _ in range(2):
        raw.send(b"{not json")
        assert run(scene, topic, tmp_path, capsys, "--check", "none")["parked"] == 1
        shutil.rmtree(tmp_path / "table")


def test_a_poison_record_is_parked_and_the_rest_goes_on(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    topic = f"{PREFIX}/poison"
    producer = scene.client.create_producer(topic, schema=JsonSchema(First))
    raw = scene.client.create_producer(topic, schema=BytesSchema())
    for number in range(10):
        producer.send(First(level=number))
        if number == 4:
            raw.send(b"{not json")
    said = run(scene, topic, tmp_path, capsys)
    assert (said["read"], said["written"], said["parked"], said["details"]["ids looked at"]) == (11, 10, 1, 11)
    (parked,) = scene.session.read.parquet(f"{tmp_path}/table_parked").collect()
    assert bytes(parked["__corrupt"]) == b"{not json"
    assert sorted(table_of("parquet", tmp_path)["level"].to_pylist()) == list(range(10))


def test_each_topic_of_a_shared_table_keeps_its_parked_messages(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    table = ["--format", "delta", "--path", f"file://{tmp_path}/table", "--check", "table"]
    for name in ("one", "two"):
        topic = f"{PREFIX}/shared-{name}"
        producer = scene.client.create_producer(topic, schema=JsonSchema(First))
        raw = scene.client.create_producer(topic, schema=BytesSchema())
        producer.send(First(level=1))
        raw.send(name.encode())
        producer.send(First(level=2))
        said = run(scene, topic, tmp_path, capsys, *table, "--checkpoint", str(tmp_path / name))
    assert (said["details"]["ids looked at"], said["problems"]) == (6, [])
    parked = scene.session.read.parquet(f"{tmp_path}/table_parked").collect()
    assert {bytes(each["__corrupt"]) for each in parked} == {b"one", b"two"}


@pytest.mark.parametrize("kind", ["{}", "file://{}"])
def test_files_of_a_delta_table_are_found_under_any_name(tmp_path: Path, kind: str) -> None:
    path = kind.format(tmp_path / "with a space and ü")
    deltalake.write_deltalake(path, pa.table({"n": [1]}))
    (found,) = DeltaTable(Place(path), by="").files()
    assert (local_folder(path) / found).is_file()


def test_a_column_that_readers_would_take_for_the_batches_is_refused(scene: Scene, tmp_path: Path) -> None:
    frame = scene.session.createDataFrame([(1, 2)], "n int, ingest_batch int")
    with pytest.raises(JobFailed, match="folders are called ingest_batch, and so is a column"):
        ParquetTable(tmp_path, by="").write(frame, "query", 0)


def test_an_empty_topic_gives_no_table_and_no_error(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    topic = f"{PREFIX}/lake-empty"
    scene.client.create_producer(topic).close()
    said = run(scene, topic, tmp_path, capsys)
    assert (said["read"], said["details"]["rows in the table"], said["problems"]) == (0, 0, [])


def test_a_kill_in_the_moment_in_which_the_first_batch_is_written_down_stops_no_later_run(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/lake-first-record"
    keep(scene, topic)
    produce(scene, topic, 5)
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for left in (".0.84c0d5c2.tmp", "..0.84c0d5c2.tmp.crc"):  # Spark gives a record its name when it is complete
        (offsets / left).write_text("v1")
    assert run(scene, topic, tmp_path, capsys)["written"] == 5


def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on_when_there_is_room(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/lake-full"
    keep(scene, topic)
    values = [bytes([number]) + random.Random(number).randbytes(100_000) for number in range(20)]
    producer = scene.client.create_producer(topic)
    for value in values:
        producer.send(value)
    producer.close()
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", 4) as disk:
        options = ["--path", str(disk.folder / "table")]
        disk.fill()
        said = run(scene, topic, tmp_path, capsys, *options, code=1)["error"]
        assert said.endswith("No space left on device")
        assert said.startswith("magnetar spark lake_ingest: ")
        disk.empty()
        assert run(scene, topic, tmp_path, capsys, *options)["written"] == 20
        table = pds.dataset(str(disk.folder / "table"), partitioning="hive").to_table()
    assert table["value"].to_pylist() == values


def test_a_damaged_catalog_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(JobFailed, match=r"/catalog\.db: file is not a database"):
        open_catalog(Place(str(tmp_path)))


@pytest.mark.long
def test_the_end_check_finds_what_is_missing_and_what_is_there_twice(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/lake-check"
    keep(scene, topic)
    produce(scene, topic, 10, batching_enabled=False)
    large = scene.client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    large.send(bytes(6 * 1024 * 1024))  # its id is that of its second chunk, and the first one is a hole
    for number in (10, 20):
        produce(scene, topic, 10, number, batching_enabled=False)
        assert run(scene, topic, tmp_path, capsys)["problems"] == []
    produce(scene, topic, 10, 30, batching_enabled=True)
    assert run(scene, topic, tmp_path, capsys, "--check", "table")["problems"] == []
    _, second, _ = sorted((tmp_path / "table").glob("ingest_batch=*"))
    copy = second / "copy.parquet"
    shutil.copy(next(second.glob("*.parquet")), copy)
    assert run(scene, topic, tmp_path, capsys, "--check", "table", code=1)["problems"] == [
        "10 messages are in the table twice"
    ]
    copy.unlink()
    shutil.move(second, tmp_path / "away")
    (problem,) = run(scene, topic, tmp_path, capsys, "--check", "table", code=1)["problems"]
    assert problem.endswith(":22…31 that the table lacks")
    other = [*arguments(scene, topic, tmp_path), "--checkpoint", str(tmp_path / "other")]
    assert main(other) == 1
    assert "was written with another checkpoint" in capsys.readouterr().err


@pytest.mark.long
def test_what_the_broker_deleted_between_runs_is_named_or_passed_over(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/lake-trimmed"
    path = topic.replace("://", "/")
    present = scene.client.create_producer(topic)  # otherwise the topic would be deleted as a whole when nobody uses it
    produce(scene, topic, 10)
    assert run(scene, topic, tmp_path, capsys)["written"] == 10
    produce(scene, topic, 10, 10)
    Admin(scene.server).put(f"{path}/unload")  # ends the ledger, which nothing keeps from being deleted
    produce(scene, topic, 5, 20)
    Admin(scene.server).post(f"{path}/trim")
    refused = run(scene, topic, tmp_path, capsys, code=1)["error"]
    assert "is gone" in refused
    assert "--fail-on-data-loss false goes on" in refused
    said = run(scene, topic, tmp_path, capsys, "--fail-on-data-loss", "false", "--check", "table")
    present.close()
    assert (said["written"], said["details"]["rows in the table"], said["problems"]) == (5, 15, [])


def merge_steps(table: ParquetTable, folder: Path) -> list[Callable[[], object]]:
    """Returns the steps of a merge of batches 0 and 1 after their rows are in `_merged`."""
    replaced = folder / REPLACED
    return [
        lambda: (folder / INTENT_FILE).write_text(json.dumps({"folders": ["ingest_batch=00", "ingest_batch=01"]})),
        lambda: replaced.mkdir(),
        lambda: (folder / "ingest_batch=00").rename(replaced / "ingest_batch=00"),
        lambda: (folder / "ingest_batch=01").rename(replaced / "ingest_batch=01"),
        lambda: (folder / MERGED).rename(folder / "ingest_batch=01"),
        lambda: (folder / INTENT_FILE).unlink(),
        lambda: shutil.rmtree(replaced),
    ]


@pytest.mark.parametrize("steps", range(8))
def test_a_merge_that_was_killed_is_undone_or_finished(tmp_path: Path, steps: int) -> None:
    for name, content in (("ingest_batch=00", "a"), ("ingest_batch=01", "b"), (MERGED, "ab")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.parquet").write_text(content)
    for step in merge_steps(ParquetTable.__new__(ParquetTable), tmp_path)[:steps]:
        step()
    table = ParquetTable(tmp_path, by="")
    assert [Path(file).read_text() for file in table.files()] == (["ab"] if steps else ["a", "b"])
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == (["ingest_batch=01"] if steps else ["ingest_batch=00", "ingest_batch=01"])


@pytest.mark.long
def test_killed_driver_and_killed_server_and_a_new_partition_change_nothing(scene: Scene, tmp_path: Path) -> None:
    topic = f"{PREFIX}/lake-killed"
    path = f"{topic.replace('://', '/')}/partitions"
    Admin(scene.server).put(path, 1)
    keep(scene, topic)
    produce(scene, topic, 300, batching_enabled=False)
    options = arguments(scene, topic, tmp_path, "--subscription", "killed", "--format", "delta")
    with JobProcess("lake_ingest", [*options, "--trigger", "100 milliseconds", "--max-messages", "40"]) as victim:
        victim.until_batch(1)
        Admin(scene.server).post(path, 3)
        fresh = pulsar.Client(scene.server.broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = fresh.create_producer(
            topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
        )
        for number in range(300, 400):
            producer.send(b"%d" % number)
        victim.until_batch(4)
        scene.server.kill()
        victim.kill()
    scene.server.start()
    for number in range(400, 500):
        producer.send(b"%d" % number)
    fresh.close()
    with JobProcess("lake_ingest", options) as job:
        job.result()
    table = table_of("delta", tmp_path)
    crcs = {each: zlib.crc32(value) for each, value in zip(ids_in(table), table["value"].to_pylist(), strict=True)}
    assert len(crcs) == table.num_rows == 500
    assert crcs == crcs_in_topic(scene, topic)
    assert len(set(table["__topic"].to_pylist())) == 3
