"""Jobs with checkpoints and tables in stores, each of which is a service on this machine: killed in between,
each message is in the table once, as on a local disk."""

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pyarrow.parquet as pq
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String

from compat_tests.spark.azure_server import AzureServer
from compat_tests.spark.job_process import JobProcess
from compat_tests.spark.s3_server import S3Server
from compat_tests.spark.store_server import StoreServer
from compat_tests.spark.stores import STORES, STORES_OF_TESTS
from magnetar.spark.jobs.audit import audit
from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.lake import lake_ingest
from magnetar.spark.jobs.snapshot import snapshot_table
from magnetar.spark.jobs.storage.place import Place, place_of
from magnetar.spark.jobs.tables.parquet_files import WrittenFile, write_files
from magnetar.spark.jobs.tables.parquet_objects import ParquetObjects
from magnetar.spark.jobs.tables.table import Table, open_table
from tests.spark.support import Scene, produce

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"
KINDS = ["parquet", "delta", "iceberg"]
TABLE = "pulsar.messages"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module", params=STORES_OF_TESTS)
def store(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with STORES[request.param]() as server:
        yield server


def arguments(scene: Scene, store: StoreServer, topic: str, name: str, *more: str) -> list[str]:
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--topic", topic]
    places = ["--path", store.url(f"{name}/table"), "--checkpoint", store.url(f"{name}/checkpoint")]
    return [*place, *places, "--progress", "json", *more]


def run(job: Any, given: list[str], capsys: Capture, code: int = 0) -> dict[str, Any]:
    """Runs a job in this process and returns its outcome. When it prints none, returns the last line on stderr."""
    assert job.main(given) == code, capsys.readouterr().err
    said = capsys.readouterr()
    assert S3Server.secret not in said.out + said.err
    assert AzureServer.secret not in said.out + said.err
    if not said.out.strip():
        return {"error": said.err.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(said.out.strip().splitlines()[-1])
    return found


def ids_in_topic(scene: Scene, topic: str) -> list[bytes]:
    return sorted(bytes(each.message_id().serialize()) for each in scene.contents(topic))


class First(Record):  # type: ignore[misc]
    level = Integer()


class Second(Record):  # type: ignore[misc]
    level = Integer()
    unit = String(required_default=True)


class Third(Record):  # type: ignore[misc]
    level = String()


def write_records(scene: Scene, topic: str, kind: type[Record], count: int, **fields: Any) -> None:
    producer = scene.client.create_producer(topic, schema=JsonSchema(kind))
    for number in range(count):
        producer.send_async(kind(**({"level": number} | fields)), None)
    producer.flush()
    producer.close()


@pytest.mark.parametrize("kind", KINDS)
def test_each_message_once_although_a_batch_comes_again_and_the_schema_grows(
    scene: Scene, store: StoreServer, kind: str, capsys: Capture
) -> None:
    topic, name = f"{PREFIX}/{type(store).__name__}-{kind}", f"each-{kind}"
    options = ["--format", kind, "--subscription", "lake", "--partition-by", "day", *store.arguments]
    scene.client.subscribe(topic, "lake", initial_position=pulsar.InitialPosition.Earliest).close()
    write_records(scene, topic, First, 30)
    given = arguments(scene, store, topic, name, *options)
    assert run(lake_ingest, given, capsys)["written"] == 30
    store.delete(f"{name}/checkpoint/commits/")  # the driver might have been killed after the table's commit
    write_records(scene, topic, Second, 20, unit="m")
    said = run(lake_ingest, [*given, "--schema", "evolve", "--check", "table"], capsys)
    assert (said["written"], said["skipped"], said["problems"]) == (20, 30, [])
    assert (said["details"]["ids looked at"], said["details"]["rows in the table"]) == (50, 50)
    table = store.table(kind, f"{name}/table", TABLE)
    assert sorted(table["__messageId"].to_pylist()) == ids_in_topic(scene, topic)
    assert sorted(map(str, table["unit"].to_pylist())) == ["None"] * 30 + ["m"] * 20
    assert {str(each) for each in table["message_day"].to_pylist()} == {
        str(each.date()) for each in table["__publishTime"].to_pylist()
    }
    assert not store.secret or store.secret not in store.stored_text()


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_a_snapshot_has_the_latest_row_of_each_key(
    scene: Scene, store: StoreServer, kind: str, capsys: Capture
) -> None:
    topic, name = f"{PREFIX}/{type(store).__name__}-snapshot-{kind}", f"snapshot-{kind}"
    chance = random.Random(3)
    expected: dict[str, bytes] = {}
    given = arguments(scene, store, topic, name, "--merge", kind, "--check", *store.arguments)
    producer = scene.client.create_producer(topic)
    for _ in range(2):
        for number in range(40):
            key, value = f"k{chance.randrange(8)}", b"" if chance.random() < 0.3 else b"%d" % number
            producer.send(value, partition_key=key)
            expected.pop(key, None) if not value else expected.update({key: value})
        said = run(snapshot_table, given, capsys)
        assert (said["problems"], said["details"]["rows in the table"]) == ([], len(expected))
    producer.close()
    table = store.table(kind, f"{name}/table", "pulsar.snapshot")
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == expected
    assert not [each for each in store.names(f"{name}/checkpoint") if ".staged" in each or "lock" in each]


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_a_column_that_comes_later_is_in_the_snapshot(
    scene: Scene, store: StoreServer, kind: str, capsys: Capture
) -> None:
    topic, name = f"{PREFIX}/{type(store).__name__}-grown-{kind}", f"grown-{kind}"
    given = arguments(scene, store, topic, name, "--merge", kind, "--key", "level", "--check", *store.arguments)
    write_records(scene, topic, First, 5)
    assert run(snapshot_table, given, capsys)["problems"] == []
    write_records(scene, topic, Second, 3, unit="m")
    assert run(snapshot_table, given, capsys)["problems"] == []
    table = store.table(kind, f"{name}/table", "pulsar.snapshot")
    found = dict(zip(table["level"].to_pylist(), table["unit"].to_pylist(), strict=True))
    assert found == {0: "m", 1: "m", 2: "m", 3: None, 4: None}


def test_an_audit_keeps_its_looks(scene: Scene, store: StoreServer, capsys: Capture) -> None:
    topic = f"{PREFIX}/{type(store).__name__}-audited"
    produce(scene, topic, 7, batching_enabled=False)
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url]
    sink = ["--sink", store.url("looks"), *store.arguments]
    for _ in range(2):
        run(audit, [*place, "--namespaces", "public/default", "--progress", "json", *sink], capsys)
    looks = [pq.read_table(io.BytesIO(store.read(name))).to_pylist() for name in store.names("looks")]
    assert [[row["entries"] for row in rows if row["topic"] == topic] for rows in looks] == [[7], [7]]


@pytest.mark.parametrize("kind", ["delta", pytest.param("parquet", marks=pytest.mark.long)])
def test_a_killed_driver_changes_nothing(scene: Scene, store: StoreServer, kind: str) -> None:
    topic, name = f"{PREFIX}/{type(store).__name__}-killed-{kind}", f"killed-{kind}"
    scene.client.subscribe(topic, "lake", initial_position=pulsar.InitialPosition.Earliest).close()
    produce(scene, topic, 300, batching_enabled=False)
    given = arguments(scene, store, topic, name, "--format", kind, "--subscription", "lake")
    endless = [*given, "--trigger", "100 milliseconds", "--max-messages", "40"]
    with JobProcess("lake_ingest", endless, store.environment) as victim:
        victim.until_batch(2)
        victim.kill()
    produce(scene, topic, 100, 300)
    with JobProcess("lake_ingest", given, store.environment) as job:
        assert job.result()["problems"] == []
    table = store.table(kind, f"{name}/table", TABLE)
    assert sorted(table["__messageId"].to_pylist()) == ids_in_topic(scene, topic)
    assert sorted(map(int, table["value"].to_pylist())) == list(range(400))


def place(store: StoreServer, name: str) -> Place:
    return place_of(store.url(name), store.options)


def batch(scene: Scene, *numbers: int) -> Any:
    return scene.session.createDataFrame([(number,) for number in numbers], "n int")


def numbers_in(scene: Scene, table: Table) -> list[int]:
    return sorted(row.n for row in table.rows(scene.session, table.files(), ["n"]).collect())


def test_a_batch_of_parquet_files_is_finished_by_the_next_run_when_its_copies_were_broken_off(
    scene: Scene, store: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ParquetObjects, "_finish", lambda self, record: None)
        killed = ParquetObjects(place(store, "copies"), by="")
        assert killed.write(batch(scene, 1, 2), "query", 0) == 2
        assert killed.files() == []
    table = ParquetObjects(place(store, "copies"), by="")
    assert numbers_in(scene, table) == [1, 2]
    assert table.write(batch(scene, 1, 2), "query", 0) is None
    assert not store.names("copies/_building")


def between_files_and_commit(table: Table, patch: pytest.MonkeyPatch, happens: Callable[[], object]) -> Table:
    """Returns a table in whose next write something happens after the executors have written the files."""
    name = f"{type(table).__module__}.write_files"

    def write(*given: Any, **named: Any) -> list[WrittenFile]:
        patch.undo()
        files = write_files(*given, **named)
        happens()
        return files

    patch.setattr(name, write)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_an_attempt_that_committed_nothing_are_in_no_table(
    scene: Scene, store: StoreServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened() -> Table:
        return open_table(scene.session, kind, place(store, f"attempt-{kind}"), "a.b", by="")

    assert opened().write(batch(scene, 1), "query", 0) == 1
    with monkeypatch.context() as patch:
        written = between_files_and_commit(opened(), patch, lambda: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            written.write(batch(scene, 2, 3), "query", 1)
    again = opened()
    assert numbers_in(scene, again) == [1]
    assert again.write(batch(scene, 2, 3), "query", 1) == 2
    assert numbers_in(scene, again) == [1, 2, 3]
    assert again.count() == 3


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_runs_that_write_the_same_batch_one_gets_it_in(
    scene: Scene, store: StoreServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was only slow may go on beside the run that has taken its place."""

    def opened() -> Table:
        return open_table(scene.session, kind, place(store, f"twice-{kind}"), "a.b", by="")

    assert opened().write(batch(scene, 1), "query", 0) == 1
    with monkeypatch.context() as patch:
        slow = between_files_and_commit(opened(), patch, lambda: opened().write(batch(scene, 2), "query", 1))
        assert slow.write(batch(scene, 2), "query", 1) is None
    assert numbers_in(scene, opened()) == [1, 2]


def test_an_incompatible_change_names_the_column(scene: Scene, s3: S3Server, capsys: Capture) -> None:
    topic = f"{PREFIX}/s3-types"
    write_records(scene, topic, First, 3)
    given = arguments(scene, s3, topic, "types", "--format", "delta", *s3.arguments)
    assert run(lake_ingest, given, capsys)["written"] == 3
    other = f"{PREFIX}/s3-types-other"
    write_records(scene, other, Third, 3, level="high")
    given = arguments(scene, s3, other, "types", "--format", "delta", *s3.arguments)
    given[given.index("--checkpoint") + 1] = s3.url("types/other")
    said = run(lake_ingest, given, capsys, code=1)["error"]
    assert "column level is int in the table and string in the topic" in said


def test_a_checkpoint_of_another_job_is_refused(scene: Scene, s3: S3Server, capsys: Capture) -> None:
    topic = f"{PREFIX}/s3-jobs"
    produce(scene, topic, 1)
    assert run(lake_ingest, arguments(scene, s3, topic, "jobs", *s3.arguments), capsys)["written"] == 1
    other = arguments(scene, s3, topic, "jobs", "--merge", "delta", *s3.arguments)
    said = run(snapshot_table, other, capsys, code=1)["error"]
    assert said.endswith(f"checkpoint {s3.url('jobs/checkpoint')} is of lake_ingest: give each job one of its own")


def test_what_cannot_be_reached_is_one_sentence(scene: Scene, s3: S3Server, capsys: Capture) -> None:
    topic = f"{PREFIX}/s3-nowhere"
    produce(scene, topic, 1)
    given = arguments(scene, s3, topic, "nowhere", *s3.arguments)
    given[given.index("--path") + 1] = "s3://no-such-bucket/table"
    said = run(lake_ingest, given, capsys, code=1)["error"]
    assert "s3://no-such-bucket/table: " in said
    assert "The specified bucket does not exist" in said
    given[given.index("--path") + 1] = "ftp://there/table"
    assert "expected a path, or one of hdfs://, s3://" in run(lake_ingest, given, capsys, code=1)["error"]
    with pytest.raises(JobFailed, match="take --format delta"):
        ParquetObjects(place(s3, "compact"), by="").compact(scene.session)
