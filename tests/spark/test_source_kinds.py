"""The data source over kinds of topics: schemas, partitions, patterns, a public data set, a token."""

import io
import json
import secrets
from pathlib import Path
from typing import Any

import fastavro
import jwt
import pulsar
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from compat_tests.certificates import Authority
from compat_tests.harness import Server, free_port
from magnetar.spark.source.row_writer import java_string_hash
from tests.spark.order_messages import ORDER_COLUMNS, order_class
from tests.spark.support import Scene, run_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"


class Inner(pulsar.schema.Record):  # type: ignore[misc]
    x = pulsar.schema.Double()


class Reading(pulsar.schema.Record):  # type: ignore[misc]
    name = pulsar.schema.String()
    level = pulsar.schema.Integer()
    tags = pulsar.schema.Array(pulsar.schema.String())
    inner = Inner()


@pytest.mark.parametrize("kind", ["Json", "Avro"])
def test_records_become_columns(scene: Scene, kind: str) -> None:
    topic = f"{PREFIX}/kinds-{kind}"
    producer = scene.client.create_producer(topic, schema=getattr(pulsar.schema, f"{kind}Schema")(Reading))
    for number in range(20):
        producer.send(
            Reading(name=f"n{number}", level=number, tags=["a", "b"][: number % 3], inner=Inner(x=number / 2))
        )
    frame = scene.read(topic)
    assert frame.select("level", "tags", "inner").schema.simpleString() == (
        "struct<level:int,tags:array<string>,inner:struct<x:double>>"
    )
    rows = frame.select("name", "level", "tags", "inner.x").orderBy("level").collect()
    assert [tuple(row) for row in rows] == [(f"n{n}", n, ["a", "b"][: n % 3], n / 2) for n in range(20)]


def test_a_value_written_with_an_older_schema_is_read_with_the_newest(scene: Scene) -> None:
    topic = f"{PREFIX}/kinds-evolved"

    class Older(pulsar.schema.Record):  # type: ignore[misc]
        _avro_namespace = "t"
        name = pulsar.schema.String()

    older = scene.client.create_producer(topic, schema=pulsar.schema.AvroSchema(Older))
    older.send(Older(name="old"))
    fields = [{"name": "name", "type": ["null", "string"]}, {"name": "n", "type": "int", "default": 7}]
    newer = {"type": "record", "name": "Older", "namespace": "t", "fields": fields}
    body = {"type": "AVRO", "schema": json.dumps(newer), "properties": {}}
    scene.admin.post(f"schemas/public/default/{topic.rpartition('/')[2]}/schema", body)
    assert [(row.name, row.n) for row in scene.read(topic).collect()] == [("old", 7)]


def test_protobuf_messages_become_columns(scene: Scene) -> None:
    topic, order = f"{PREFIX}/kinds-protobuf", order_class()
    producer = scene.client.create_producer(topic, schema=pulsar.schema.ProtobufNativeSchema(order))
    for number in range(5):
        producer.send(order(name=f"n{number}", huge=2**64 - 1 - number, part={"weight": number}, counts={"a": number}))
    frame = scene.read(topic)
    assert frame.drop(*(name for name in frame.columns if name.startswith("__"))).schema.simpleString() == ORDER_COLUMNS
    rows = frame.selectExpr("name", "huge", "part.weight", "counts['a']", "at").orderBy("name").collect()
    assert [tuple(row) for row in rows] == [(f"n{n}", 2**64 - 1 - n, n, n, None) for n in range(5)]


@pytest.mark.parametrize(
    ("schema", "values", "kind"),
    [
        (pulsar.schema.StringSchema(), ["a", "é", ""], "string"),
        (pulsar.schema.BytesSchema(), [b"a", b"\xff"], "binary"),
    ],
)
def test_primitive_values(scene: Scene, schema: Any, values: list[Any], kind: str) -> None:
    topic = f"{PREFIX}/kinds-{kind}"
    producer = scene.client.create_producer(topic, schema=schema)
    for value in values:
        producer.send(value)
    frame = scene.read(topic)
    assert frame.schema["value"].dataType.simpleString() == kind
    assert sorted(row.value for row in frame.collect()) == sorted(values)


def test_key_value_pairs_have_two_columns(scene: Scene) -> None:
    local = "kinds-pairs"
    record = {"type": "record", "name": "V", "fields": [{"name": "n", "type": "int"}]}
    properties = {
        "key.schema.name": "k", "key.schema.type": "STRING", "key.schema.properties": "{}",
        "value.schema.name": "v", "value.schema.type": "AVRO", "value.schema.properties": "{}",
        "kv.encoding.type": "INLINE",
    }  # fmt: skip
    body = {"type": "KEY_VALUE", "schema": json.dumps({"key": "", "value": record}), "properties": properties}
    scene.admin.post(f"schemas/public/default/{local}/schema", body)
    producer = scene.client.create_producer(f"{PREFIX}/{local}", schema=pulsar.schema.BytesSchema())
    parsed = fastavro.parse_schema(record)
    for number in range(5):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, {"n": number})
        key, value = f"k{number}".encode(), buffer.getvalue()
        producer.send(len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value)
    rows = scene.read(f"{PREFIX}/{local}").select("key", "value.n").collect()
    assert sorted(tuple(row) for row in rows) == [(f"k{n}", n) for n in range(5)]


def test_topics_of_different_schemas_are_refused_by_name_or_read_as_bytes(scene: Scene) -> None:
    first, second = f"{PREFIX}/differ-a", f"{PREFIX}/differ-b"
    scene.client.create_producer(first, schema=pulsar.schema.StringSchema()).send("a")
    scene.client.create_producer(second).send(b"b")
    read = scene.session.read.format("pulsar").option("service.url", scene.server.broker_url)
    with pytest.raises(AnalysisException, match=r"differ-a and .*differ-b have different schemas"):
        read.option("topics", f"{first},{second}").load()
    other = scene.session.read.format("pulsar").option("service.url", scene.server.broker_url)
    both = other.option("topicsPattern", f"{PREFIX}/differ-.*").option("allowDifferentTopicSchemas", "true").load()
    assert sorted(bytes(row.value) for row in both.collect()) == [b"a", b"b"]


def test_a_partition_added_in_mid_run_is_read_from_its_begin(scene: Scene, tmp_path: Path) -> None:
    topic = f"{PREFIX}/growing"
    scene.admin.put("persistent/public/default/growing/partitions", 2)

    def produce(first: int) -> None:
        producer = scene.client.create_producer(topic)
        for number in range(first, first + 60):
            producer.send_async(b"%d" % number, None, partition_key=f"k{number}")
        producer.flush()
        producer.close()

    produce(0)
    query = scene.to_parquet(scene.read_stream(topic, predefinedSubscription="grow"), tmp_path)
    run_until(query, lambda: sum(step["numInputRows"] for step in query.recentProgress) >= 60)
    scene.admin.post("persistent/public/default/growing/partitions", 4)
    for partition in range(2, 4):
        scene.client.create_producer(f"{topic}-partition-{partition}").send(b"%d" % (60 + partition))
    run_until(query, lambda: sum(step["numInputRows"] for step in query.recentProgress) >= 62)
    query.stop()
    table = scene.table(tmp_path)
    assert sorted(int(row.value) for row in table.collect()) == [*range(60), 62, 63]
    assert table.select("__topic").distinct().count() == 4


def test_keyed_rows_go_where_javas_clients_put_their_keys(scene: Scene) -> None:
    """Partitions follow String.hashCode, whose values for these words are well known; C++ clients have a hash of their
    own."""
    known = {b"hello": 99162322, b"": 0, b"Aa": 2112, b"BB": 2112, "日本".encode(): 835047}
    assert {key: java_string_hash(key) for key in known} == known
    assert java_string_hash(b"polygenelubricants") == 0  # in Java the hash is the smallest int, whose sign is cut off
    topic = f"{PREFIX}/routed"
    scene.admin.put("persistent/public/default/routed/partitions", 4)
    keys = [f"key-{number}" for number in range(40)]
    frame = scene.session.createDataFrame([(key, key.encode()) for key in keys], "__key string, value binary")
    frame.write.format("pulsar").options(**scene.options(topic)).mode("append").save()
    for number, partition in enumerate(scene.client.get_topic_partitions(topic)):
        expected = sorted(key for key in keys if java_string_hash(key.encode()) % 4 == number)
        assert sorted(message.partition_key() for message in scene.contents(partition)) == expected


def test_tls_and_a_token_are_needed_and_given(scene: Scene, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    broker, key, port = authority.issue("localhost"), tmp_path / "secret.key", free_port()
    key.write_bytes(secrets.token_bytes(32))
    token = jwt.encode({"sub": "admin"}, key.read_bytes(), algorithm="HS256")
    settings = {
        "brokerServicePortTls": str(port),
        "tlsCertificateFilePath": str(broker.certificate),
        "tlsKeyFilePath": str(broker.key),
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "tokenSecretKey": f"file://{key}",
    }
    with Server(tmp_path / "secure", settings=settings):
        options = {"service.url": f"pulsar+ssl://localhost:{port}", "topic": "guarded"}
        trust = {"pulsar.client.tlsTrustCertsFilePath": str(authority.path)}
        secret = {**trust, "pulsar.client.authParams": f"token:{token}"}
        frame = scene.session.range(5).select(F.col("id").cast("string").alias("value"))
        frame.write.format("pulsar").options(**options, **secret).mode("append").save()
        read = scene.session.read.format("pulsar").options(**options)
        assert read.options(**secret).load().count() == 5
        other = scene.session.read.format("pulsar").options(**options)
        with pytest.raises(AnalysisException, match=r"(?i)authenticat") as refused:
            other.options(**trust, **{"pulsar.client.authParams": "token:wrong"}).load()
        assert "wrong" not in str(refused.value)
        fast = {"pulsar.client.authParams": f"token:{token}", "pulsar.client.operationTimeoutMs": "500"}
        distrustful = scene.session.read.format("pulsar").options(**options, **fast)
        with pytest.raises(AnalysisException, match=r"(?i)certificate verify failed"):
            distrustful.load()


def test_a_topic_of_a_public_data_set_comes_back_as_it_was(scene: Scene) -> None:
    """Seattle's weather of four years, as the package vega_datasets ships it: real names, dates and numbers."""
    from vega_datasets import local_data

    weather = local_data.seattle_weather()
    frame = scene.session.createDataFrame(weather).withColumn("__key", F.date_format("date", "yyyy-MM-dd"))
    topic = f"{PREFIX}/weather"
    frame.write.format("pulsar").options(**scene.options(topic)).mode("append").save()
    read = scene.read(topic).groupBy("weather").agg(F.count("*"), F.sum("precipitation"), F.max("temp_max"))
    got = {row[0]: (row[1], pytest.approx(row[2]), row[3]) for row in read.collect()}
    groups = weather.groupby("weather")
    expected = {name: (len(rows), rows["precipitation"].sum(), rows["temp_max"].max()) for name, rows in groups}
    assert got == expected
    assert sum(count for count, _, _ in expected.values()) == 1461
