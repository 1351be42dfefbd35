"""`snapshot_table` against the latest values that the official client sees."""

import json
import random
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import BytesSchema, Integer, JsonSchema, Record, String

from compat_tests.python.rest import Admin
from compat_tests.spark.job_process import JobProcess
from magnetar.spark.jobs.job_outcome import JobOutcome
from magnetar.spark.jobs.position_column import position
from magnetar.spark.jobs.snapshot.changes import changes
from magnetar.spark.jobs.snapshot.snapshot_stores import Snapshot, open_snapshot
from magnetar.spark.jobs.snapshot.snapshot_table import SnapshotJob, main, stored
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.source.checkpoint import Checkpoint
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"
KINDS = ["parquet-overwrite", "delta", "iceberg"]
Capture = pytest.CaptureFixture[str]
Rows = dict[str, dict[str, Any]]
COLUMNS = (
    "key string, value string, __topic string, __messageId binary, __publishTime timestamp, "
    "_deleted boolean, _lsn string, _reason string"
)
"""The columns of changes, without their position."""


def arguments(scene: Scene, topic: str, folder: Path, *more: str) -> list[str]:
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--topic", topic]
    places = ["--path", str(folder / "table"), "--checkpoint", str(folder / "ck")]
    return [*place, *places, "--progress", "json", *more]


def snapshot(scene: Scene, folder: Path, kind: str = KINDS[0]) -> Snapshot:
    place, staging = Place(str(folder / "table")), Place(str(folder / "staged-by-test"))
    return open_snapshot(scene.session, kind, place, "pulsar.snapshot", staging=staging)


def rows_in(scene: Scene, folder: Path, kind: str = KINDS[0]) -> Rows:
    live = snapshot(scene, folder, kind).live()
    rows = [] if live is None else live.collect()
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: row.asDict() for row in rows}


def run(scene: Scene, topic: str, folder: Path, capsys: Capture, *more: str, code: int = 0) -> dict[str, Any]:
    """Runs the job and returns its outcome. When it prints none, returns the last line on stderr."""
    got = main(arguments(scene, topic, folder, "--check", *more))
    said = capsys.readouterr()
    assert got == code, said.err
    if not said.out.strip():
        return {"error": said.err.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(said.out.strip().splitlines()[-1])
    assert found["read"] == found["written"] + found["skipped"] + found["parked"]
    return found


def produce(scene: Scene, topic: str, chance: random.Random, name: str, count: int = 150) -> None:
    """Writes updates of 30 keys, and some deletes: empty payloads, as in compaction."""
    producer = scene.client.create_producer(topic)
    for number in range(count):
        body = b"" if chance.random() < 0.15 else f"{name}-{number}".encode()
        producer.send_async(body, None, partition_key=f"k{chance.randrange(30)}")
    producer.flush()
    producer.close()


def keep(scene: Scene, topic: str) -> None:
    """Keeps a topic and its messages when nobody else uses it."""
    scene.client.subscribe(topic, "keeper", initial_position=pulsar.InitialPosition.Earliest).close()


def latest_in_topic(scene: Scene, topic: str) -> dict[str, bytes]:
    """Returns the last value of each key in its partition, and of several partitions the youngest one, as the official
    client reads them."""
    last: dict[tuple[str, str], pulsar.Message] = {}
    for message in scene.contents(topic):
        last[message.partition_key(), message.topic_name()] = message
    found = {}
    for (key, _), message in sorted(last.items(), key=lambda item: item[1].publish_timestamp()):
        found[key] = message.data()
    return {key: value for key, value in found.items() if value}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_is_what_table_view_sees_and_a_replay_changes_nothing(
    scene: Scene, tmp_path: Path, kind: str, capsys: Capture
) -> None:
    topic = f"{PREFIX}/snapshot-{kind}"
    chance = random.Random(3)
    keep(scene, topic)
    for name in ("first", "second"):
        produce(scene, topic, chance, name)
        said = run(scene, topic, tmp_path, capsys, "--merge", kind)
        assert said["details"]["keys compared"] == said["details"]["rows in the table"]
    expected: dict[str, bytes] = {}
    view = scene.client.create_table_view(topic)
    view.for_each(expected.__setitem__)
    view.close()
    rows = rows_in(scene, tmp_path, kind)
    assert {key: bytes(row["value"]) for key, row in rows.items()} == expected == latest_in_topic(scene, topic)
    replayed = run(scene, topic, tmp_path, capsys, "--merge", kind, "--checkpoint", str(tmp_path / "other"))
    assert (replayed["read"], replayed["written"]) == (300, 0)
    forgot = run(scene, topic, tmp_path, capsys, "--merge", kind, "--vacuum", "0")
    assert rows_in(scene, tmp_path, kind) == rows
    deleted = snapshot(scene, tmp_path, kind).deleted()
    assert deleted is not None
    assert deleted.count() == 0
    assert forgot["details"]["rows in the table"] == len(rows)
    other = next(each for each in KINDS if each != kind)
    assert f"was written with --merge {kind}" in run(scene, topic, tmp_path, capsys, "--merge", other, code=1)["error"]


@pytest.mark.parametrize("kind", [KINDS[0], *(pytest.param(each, marks=pytest.mark.long) for each in KINDS[1:])])
def test_a_table_that_is_gone_is_named(scene: Scene, tmp_path: Path, kind: str, capsys: Capture) -> None:
    topic = f"{PREFIX}/snapshot-gone-{kind}"
    keep(scene, topic)
    produce(scene, topic, random.Random(3), "first", count=20)
    run(scene, topic, tmp_path, capsys, "--merge", kind)
    (tmp_path / "table").rename(tmp_path / "elsewhere")
    refused = run(scene, topic, tmp_path, capsys, "--merge", kind, code=1)["error"]
    assert f"there is no table in {tmp_path / 'table'}" in refused
    (tmp_path / "elsewhere").rename(tmp_path / "table")
    assert run(scene, topic, tmp_path, capsys, "--merge", kind)["read"] == 0


def test_an_empty_topic_gives_an_empty_outcome(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    topic = f"{PREFIX}/snapshot-empty"
    scene.client.create_producer(topic).close()
    said = run(scene, topic, tmp_path, capsys)
    assert (said["read"], said["details"]["rows in the table"], said["problems"]) == (0, 0, [])


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--key", "who"], "--key 'who': [UNRESOLVED_COLUMN"),
        (["--json-schema", "id what"], "--json-schema 'id what': "),
        (["--format", "debezium", "--json-schema", "id what"], "--json-schema 'id what': "),
    ],
)
def test_sql_that_does_not_fit_is_named_by_its_option(
    more: list[str], complaint: str, scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/sql"
    produce(scene, topic, random.Random(1), "a", count=1)
    assert complaint in run(scene, topic, tmp_path, capsys, *more, code=1)["error"]


def test_a_table_that_is_wrong_fails_the_check(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    topic = f"{PREFIX}/snapshot-wrong"
    keep(scene, topic)
    produce(scene, topic, random.Random(4), "only", 40)
    run(scene, topic, tmp_path, capsys)
    (folder,) = (tmp_path / "table").glob("version=*")
    frame = scene.session.read.parquet(str(folder))
    first = frame.agg({"key": "min"}).collect()[0][0]
    frame.where(frame["key"] != first).write.parquet(str(tmp_path / "fewer"))
    for path in folder.iterdir():
        path.unlink()
    for path in (tmp_path / "fewer").iterdir():
        path.rename(folder / path.name)
    assert run(scene, topic, tmp_path, capsys, code=1)["problems"] == ["1 row differs from what the topic says"]


@pytest.mark.long
def test_debezium_changes_insert_update_and_delete(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    topic = f"{PREFIX}/changes"
    keep(scene, topic)
    producer = scene.client.create_producer(topic)

    def change(op: str, before: object, after: object, lsn: int, *, wrapped: bool = False, key: str = "") -> None:
        body = {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}
        text = json.dumps({"schema": {}, "payload": body} if wrapped else body).encode()
        producer.send(text, partition_key=key or None)

    for number in range(5):
        change("c", None, {"id": number, "name": f"n{number}"}, number, wrapped=number % 2 == 0)
    change("u", {"id": 1, "name": "n1"}, {"id": 1, "name": "new"}, 10, wrapped=True)
    change("d", {"id": 2, "name": "n2"}, None, 11)
    change("d", None, None, 12, key='{"payload":{"id":3}}')
    producer.send(b"", partition_key='{"id":3}')  # the tombstone that follows a delete
    for poison in (b"{not json", b'{"op":"t"}', b'{"op":"c","after":null}'):
        producer.send(poison)
    options = ["--format", "debezium", "--json-schema", "id long, name string", "--key", "id"]
    said = run(scene, topic, tmp_path, capsys, *options)
    rows = rows_in(scene, tmp_path)
    assert {key: row["name"] for key, row in rows.items()} == {"0": "n0", "1": "new", "4": "n4"}
    parked = scene.session.read.parquet(f"{tmp_path}/table_parked")
    assert said["parked"] == 3
    assert {bytes(row["__value"]): row["_reason"] for row in parked.collect()} == {
        b"{not json": "it is no change of Debezium's",
        b'{"op":"t"}': "an operation that is not known: t",
        b'{"op":"c","after":null}': "it has no row",
    }
    change("u", None, {"id": 1, "name": "older, and came late"}, 9)
    change("d", {"id": 0, "name": "n0"}, None, 13, wrapped=True)
    change("c", None, {"id": 2, "name": "older than its delete"}, 8)
    by_lsn = tmp_path / "by-lsn"
    assert run(scene, topic, by_lsn, capsys, *options, "--order", "lsn")["problems"] == []
    assert {key: row["name"] for key, row in rows_in(scene, by_lsn).items()} == {"1": "new", "4": "n4"}
    run(scene, topic, tmp_path, capsys, *options)
    names = {key: row["name"] for key, row in rows_in(scene, tmp_path).items()}
    assert names == {"1": "older, and came late", "2": "older than its delete", "4": "n4"}


def test_rows_of_sql_servers_snapshot_come_before_its_changes(scene: Scene) -> None:
    places = [("r", "00000025:00000d98:00a2", None), ("c", "00000027:00000758:0005", "00000027:00000758:0003")]
    rows = [
        (b"1", json.dumps({"op": op, "after": {"id": 1}, "source": {"commit_lsn": commit, "change_lsn": change}}), b"")
        for op, commit, change in places
    ]
    frame = scene.session.createDataFrame(rows, "__key binary, value string, __messageId binary")
    how = Namespace(format="debezium", order="lsn", json_schema="id long", key="id")
    first, second = changes(frame, how).select("_lsn", "_reason").collect()
    assert (first["_reason"], second["_reason"]) == (None, None)
    assert first["_lsn"] < second["_lsn"]


def test_debezium_of_a_key_value_topic_needs_no_schema(scene: Scene, tmp_path: Path, capsys: Capture) -> None:
    topic = f"{PREFIX}/pairs"
    row = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}
    fields: list[dict[str, Any]] = [
        {"name": "op", "type": "string"},
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "R"], "default": None},
    ]
    value = {"type": "record", "name": "V", "fields": fields}
    key = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}]}
    properties = {"kv.encoding.type": "INLINE"}
    for part in ("key", "value"):
        properties |= {f"{part}.schema.name": part, f"{part}.schema.type": "JSON", f"{part}.schema.properties": "{}"}
    body = {"type": "KEY_VALUE", "schema": json.dumps({"key": key, "value": value}), "properties": properties}
    Admin(scene.server).post("schemas/public/default/pairs/schema", body)
    producer = scene.client.create_producer(topic, schema=BytesSchema())

    def send(number: int, change: object) -> None:
        parts = [json.dumps({"id": number}).encode(), None if change is None else json.dumps(change).encode()]
        framed = [b"\xff\xff\xff\xff" if part is None else len(part).to_bytes(4, "big") + part for part in parts]
        producer.send(b"".join(framed))

    for number in range(3):
        send(number, {"op": "c", "before": None, "after": {"id": number, "name": f"n{number}"}})
    send(1, {"op": "u", "before": None, "after": {"id": 1, "name": "new"}})
    send(2, None)
    run(scene, topic, tmp_path, capsys, "--format", "debezium")
    rows = rows_in(scene, tmp_path)
    assert {key: row["name"] for key, row in rows.items()} == {'{"id":0}': "n0", '{"id":1}': "new"}


class User(Record):  # type: ignore[misc]
    name = String()
    age = Integer()


def test_records_of_nulls_stay_and_messages_without_payload_delete(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/users"
    producer = scene.client.create_producer(topic, schema=JsonSchema(User))
    for key in ("a", "b", "c", "d"):
        producer.send(User(name=key, age=1), partition_key=key)
    producer.send(User(), partition_key="a")
    raw = scene.client.create_producer(topic, schema=BytesSchema())
    raw.send(b"", partition_key="b")
    raw.send(b"{poison", partition_key="c")
    nothing = scene.session.createDataFrame([(None, b"d")], "value binary, __key binary")
    nothing.write.format("pulsar").options(**scene.options(topic)).mode("append").save()
    producer.send(User(name="nobody", age=2))
    said = run(scene, topic, tmp_path, capsys)
    assert (said["parked"], said["details"]["without a key"], said["problems"]) == (1, 1, [])
    rows = rows_in(scene, tmp_path)
    assert {key: (row["name"], row["age"]) for key, row in rows.items()} == {"a": (None, None), "c": ("c", 1)}


@pytest.mark.long
def test_what_the_broker_deleted_between_runs_is_named_or_passed_over(
    scene: Scene, tmp_path: Path, capsys: Capture
) -> None:
    topic = f"{PREFIX}/snapshot-trimmed"
    path = topic.replace("://", "/")
    chance = random.Random(5)
    present = scene.client.create_producer(topic)  # otherwise the topic would be deleted as a whole when nobody uses it
    produce(scene, topic, chance, "first", 60)
    run(scene, topic, tmp_path, capsys)
    produce(scene, topic, chance, "gone", 20)
    Admin(scene.server).put(f"{path}/unload")  # ends the ledger, which nothing keeps from being deleted
    produce(scene, topic, chance, "last", 20)
    Admin(scene.server).post(f"{path}/trim")
    assert "is gone" in run(scene, topic, tmp_path, capsys, code=1)["error"]
    said = run(scene, topic, tmp_path, capsys, "--fail-on-data-loss", "false")
    present.close()
    assert said["details"]["keys older than the topic"] > 0
    rows = rows_in(scene, tmp_path)
    assert latest_in_topic(scene, topic).items() <= {key: bytes(row["value"]) for key, row in rows.items()}.items()


@pytest.mark.parametrize("kind", [pytest.param("delta"), pytest.param("iceberg", marks=pytest.mark.long)])
def test_a_delete_is_done_although_the_job_was_killed_between_its_two_tables(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    job = SnapshotJob(
        snapshot(scene, tmp_path, kind), Namespace(order="ledger"), Checkpoint("none"), JobOutcome("test")
    )

    def batch(key: str, entry: int, *, deleted: bool) -> None:
        message_id = pb.MessageIdData(ledgerId=9, entryId=entry).SerializeToString()
        when = datetime.fromtimestamp(1_700_000_000 + entry, UTC)
        rows = [(key, f"v{entry}", "p", message_id, when, deleted, "", None)]
        frame = scene.session.createDataFrame(rows, COLUMNS).withColumn("_position", position("__messageId"))
        job._snapshot.apply(stored(job._winners(frame), job._arguments))

    merge = type(job._snapshot)._merge  # type: ignore[attr-defined]

    def killed_at_the_rows(self: Snapshot, table: str | Place, *more: Any, **named: Any) -> None:
        if not (table.url if isinstance(table, Place) else table).endswith("_deleted"):
            raise KeyboardInterrupt
        merge(self, table, *more, **named)

    batch("a", 0, deleted=False)
    with monkeypatch.context() as patch:
        patch.setattr(type(job._snapshot), "_merge", killed_at_the_rows)
        with pytest.raises(KeyboardInterrupt):
            batch("a", 1, deleted=True)
    batch("a", 1, deleted=True)
    assert rows_in(scene, tmp_path, kind) == {}
    batch("a", 0, deleted=False)  # the delete comes again, and brings nothing back
    assert rows_in(scene, tmp_path, kind) == {}


@pytest.mark.long
def test_any_order_of_batches_and_any_repetition_gives_the_same_table(scene: Scene, tmp_path: Path) -> None:
    chance = random.Random(6)
    messages = []
    for number in range(60):
        key = f"k{chance.randrange(6)}"
        topic = f"p{int(key[1:]) % 2}" if number < 40 else "p2"  # with a further partition keys move
        message_id = pb.MessageIdData(ledgerId=9, entryId=number).SerializeToString()
        when = datetime.fromtimestamp(1_700_000_000 + number, UTC)
        messages.append((key, f"v{number}", topic, message_id, when, chance.random() < 0.3, "", None))
    expected: dict[str, str] = {}
    for key, value, *_, deleted, _, _ in messages:
        expected.pop(key, None) if deleted else expected.update({key: value})
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        job = SnapshotJob(snapshot(scene, folder), Namespace(order="ledger"), Checkpoint("none"), JobOutcome("test"))
        cut = chance.randrange(10, 50)
        again = chance.sample(messages, 60)
        for batch in (again[:cut], again[cut:], chance.sample(messages, 20)):
            frame = scene.session.createDataFrame(batch, COLUMNS).withColumn("_position", position("__messageId"))
            winners = job._winners(frame).persist()
            job._snapshot.apply(stored(winners, job._arguments))
            winners.unpersist()
        assert {key: row["value"] for key, row in rows_in(scene, folder).items()} == expected


@pytest.mark.long
def test_killed_driver_and_killed_server_and_a_new_partition_change_nothing(scene: Scene, tmp_path: Path) -> None:
    topic = f"{PREFIX}/snapshot-killed"
    path = f"{topic.replace('://', '/')}/partitions"
    Admin(scene.server).put(path, 1)
    chance = random.Random(7)
    keep(scene, topic)
    produce(scene, topic, chance, "first", 300)
    options = arguments(scene, topic, tmp_path, "--subscription", "killed", "--merge", "delta")
    with JobProcess("snapshot_table", [*options, "--trigger", "100 milliseconds", "--max-messages", "60"]) as victim:
        victim.until_batch(1)
        Admin(scene.server).post(path, 3)
        produce(scene, topic, chance, "second")
        scene.server.kill()
        victim.kill()
    scene.server.start()
    produce(scene, topic, chance, "third")
    with JobProcess("snapshot_table", [*options, "--vacuum", "24"]) as job:
        job.result()
    rows = rows_in(scene, tmp_path, "delta")
    assert len({message.topic_name() for message in scene.contents(topic)}) == 3
    assert {key: bytes(row["value"]) for key, row in rows.items()} == latest_in_topic(scene, topic)
