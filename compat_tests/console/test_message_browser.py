"""A topic's messages as people see them over REST: what the official client published comes back decoded."""

import base64
import time
import urllib.parse
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

from compat_tests.harness import Server
from compat_tests.python.rest import Admin, Refused
from compat_tests.python.support import bodies, incompressible, send_all

COMPRESSIONS = [
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


class User(Record):  # type: ignore[misc]
    name = String()
    age = Integer()


def browse(server: Server, topic: str, **query: Any) -> dict[str, Any]:
    asked = urllib.parse.urlencode({name.rstrip("_"): value for name, value in query.items()})
    found: dict[str, Any] = Admin(server).get(f"{topic.replace('://', '/')}/messages?{asked}")
    return found


def contents(answer: dict[str, Any]) -> list[Any]:
    return [each["value"]["content"] for each in answer["messages"]]


def test_the_last_messages_come_first_asked_for_and_all_pages_join(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(each) for each in bodies(25)]
    last = browse(server, topic, count=3)
    assert contents(last) == ["m-22", "m-23", "m-24"]
    assert (last["messages"][-1]["ledgerId"], last["messages"][-1]["entryId"]) == (
        ids[-1].ledger_id(),
        ids[-1].entry_id(),
    )
    found: list[Any] = []
    at: str | None = "earliest"
    while at is not None:
        page = browse(server, topic, from_=at, count=7)
        found += contents(page)
        at = page["next"]
    assert found == [f"m-{index}" for index in range(25)]


def test_what_comes_later_is_found_from_resume_on(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"early")
    first = browse(server, topic, from_="earliest")
    assert (contents(first), first["next"]) == (["early"], None)
    assert contents(browse(server, topic, from_=first["resume"])) == []
    producer.send(b"late")
    assert contents(browse(server, topic, from_=first["resume"])) == ["late"]


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda each: each.name)
def test_batches_are_taken_apart(server: Server, client: pulsar.Client, topic: str, compression: Any) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        compression_type=compression,
        batching_max_publish_delay_ms=1_000,
        batching_max_messages=10,
    )
    send_all(producer, bodies(10))
    answer = browse(server, topic, from_="earliest")
    assert contents(answer) == [f"m-{index}" for index in range(10)]
    assert {each["batchSize"] for each in answer["messages"]} == {10}
    middle = answer["messages"][4]["id"]
    assert contents(browse(server, topic, from_=middle, count=2)) == ["m-4", "m-5"]
    part = browse(server, topic, from_="earliest", count=4)
    assert part["next"] == middle


@pytest.mark.parametrize("schema", [AvroSchema, JsonSchema], ids=["avro", "json"])
def test_records_are_decoded_by_their_schema(server: Server, client: pulsar.Client, topic: str, schema: Any) -> None:
    producer = client.create_producer(topic, schema=schema(User))
    producer.send(User(name="ada", age=36), partition_key="k", properties={"p": "1"}, event_timestamp=5)
    (message,) = browse(server, topic)["messages"]
    assert message["value"] == {"kind": "json", "content": {"name": "ada", "age": 36}}
    assert (message["key"], message["properties"], message["eventTime"]) == ("k", {"p": "1"}, 5)
    assert (message["schemaVersion"], message["schemaType"]) == (0, "AVRO" if schema is AvroSchema else "JSON")
    assert abs(message["publishTime"] - time.time() * 1_000) < 600_000


def test_texts_and_bytes_are_told_apart(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    values = [b"plain", b'{"a": [1]}', b"{broken", b"\xff\x00", b""]
    for each in values:
        producer.send(each)
    shown = [each["value"] for each in browse(server, topic, from_="earliest")["messages"]]
    assert shown == [
        {"kind": "text", "content": "plain"},
        {"kind": "json", "content": {"a": [1]}},
        {"kind": "text", "content": "{broken"},
        {"kind": "bytes", "content": base64.b64encode(b"\xff\x00").decode()},
        {"kind": "text", "content": ""},
    ]


def test_filters_find_keys_properties_and_texts(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, schema=StringSchema())
    for index in range(20):
        producer.send(
            f"Order {index}", partition_key=f"k{index % 4}", properties={"side": "odd" if index % 2 else "even"}
        )
    assert contents(browse(server, topic, from_="earliest", key="k3")) == [
        f"Order {index}" for index in range(3, 20, 4)
    ]
    assert len(contents(browse(server, topic, from_="earliest", property="side=odd"))) == 10
    assert len(contents(browse(server, topic, from_="earliest", property="side"))) == 20
    assert contents(browse(server, topic, from_="earliest", property="side=none")) == []
    assert contents(browse(server, topic, from_="earliest", text="ORDER 19", key="k3")) == ["Order 19"]


def test_a_search_begins_at_a_time(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    producer.send(b"early")
    (early,) = browse(server, topic)["messages"]
    while int(time.time() * 1_000) <= early["publishTime"]:
        time.sleep(0.001)
    producer.send(b"late")
    assert contents(browse(server, topic, from_=early["publishTime"] + 1)) == ["late"]
    assert contents(browse(server, topic, from_="2000-01-01T00:00:00Z")) == ["early", "late"]


def test_chunks_are_joined_and_a_large_value_is_shown_in_part(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(
        topic, chunking_enabled=True, batching_enabled=False, compression_type=pulsar.CompressionType.LZ4
    )
    producer.send(b"t" * 1_000 + incompressible(12_000_000))
    producer.send(b"behind")
    chunked, behind = browse(server, topic, from_="earliest")["messages"]
    assert (chunked["size"], chunked["chunk"]["count"]) == (12_001_000, len(chunked["chunk"]["ids"]))
    assert chunked["id"] == chunked["chunk"]["ids"][-1]
    assert chunked["value"]["truncated"] is True
    assert base64.b64decode(chunked["value"]["content"]).startswith(b"t" * 1_000)
    assert behind["value"]["content"] == "behind"
    found = browse(server, topic, from_=chunked["chunk"]["ids"][1])["messages"]
    torn = next(each for each in found if "chunk" in each)
    assert torn["chunk"]["missing"] == 1
    assert "were not found" in torn["value"]["fault"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"from_": "yesterday"}, "names no place in a topic"),
        ({"from_": "1:2:3:4"}, "names no place in a topic"),
        ({"count": "0"}, "count must be from 1 to 500"),
        ({"count": "many"}, "count"),
    ],
)
def test_a_wrong_question_is_told(
    server: Server, client: pulsar.Client, topic: str, query: dict[str, str], said: str
) -> None:
    client.create_producer(topic)
    with pytest.raises(Refused, match=said) as refused:
        browse(server, topic, **query)
    assert refused.value.status == 400


def test_a_topic_that_does_not_exist_is_told(server: Server, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        browse(server, topic)
    assert refused.value.status == 404
