"""Calls that publish with random bodies, and what a call is told when its topic stops answering."""

import asyncio
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from magnetar.server.admin.http_producer import CLOSED_MEANWHILE, HttpProducer
from magnetar.server.broker.http_publishing import HttpPublishing
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.topics.publishing.producer import Producer
from pulsar_proto.errors import TooManyRequests
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import send_error_frame

SEED = 20261122
CALLS = 400

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "R"]}]}
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    1.5,
    1e300,
    2**63,
    10**30,
    "",
    "x",
    "7",
    "-1",
    "null",
    "é\x00🐘",
    "1700000000000",
    [],
    {},
    [[]],
    [None],
    {"a": None},
    {"": ""},
    "A" * 5_000,
    json.dumps({"a": 1, "b": {"R": {"a": 2, "b": None}}}),
    json.dumps({"type": "INT32"}),
    {"type": "AVRO", "schema": RECORD},
    {"type": "KEY_VALUE", "schema": "AAAAAAAAAAA="},
    {"type": "KEY_VALUE", "schema": "AAAAAAAAAAA=", "properties": {"key.schema.type": "KEY_VALUE"}},
    {"type": "PROTOBUF"},
    {"type": "JSON", "schema": "bnVsbA=="},
    {"type": "AUTO"},
    {"type": None},
)


def valid(rng: random.Random) -> dict[str, Any]:
    message = {
        "payload": "1",
        "key": "k",
        "properties": {"a": "b"},
        "eventTime": "17",
        "sequenceId": 3,
        "replicationClusters": ["standalone"],
        "disableReplication": False,
        "deliverAt": 5,
        "deliverAfterMs": 5,
    }
    body: dict[str, Any] = {"messages": [dict(message) for _ in range(rng.randrange(4))]}
    others = {"producerName": "p", "schemaVersion": -1, "valueSchema": None, "keySchema": None}
    return body | {name: value for name, value in others.items() if rng.random() < 0.5}


def spoilt(rng: random.Random) -> bytes:
    """Returns a body with a few values replaced, or with a few bytes changed."""
    body = valid(rng)
    for _ in range(rng.randrange(4)):
        place: Any = body
        if body["messages"] and isinstance(body["messages"], list) and rng.random() < 0.7:
            place = rng.choice(body["messages"])
        if isinstance(place, dict) and place:
            place[rng.choice([*place, "valueSchema", "keySchema", "schemaVersion"])] = rng.choice(ODD)
            body.setdefault("messages", [])
    text = bytearray(json.dumps(body).encode())
    for _ in range(rng.choice((0, 0, 0, 1, 5))):
        text[rng.randrange(len(text))] = rng.randrange(256)
    return bytes(text)


async def test_no_body_makes_the_server_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(SEED)
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0))
    await server.start()
    failures, stored = [], 0
    try:
        async with aiohttp.ClientSession() as session:
            topics = [f"t{number}" for number in range(5)]
            for topic in topics:
                async with session.put(f"{server.web_url}/admin/v2/persistent/public/default/{topic}") as answer:
                    assert answer.status == 204
            for _ in range(CALLS):
                body = spoilt(rng)
                url = f"{server.web_url}/topics/persistent/public/default/{rng.choice(topics)}"
                async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
                    told = await answer.json()
                    if answer.status == 200:
                        results = told["messagePublishResults"]
                        stored += sum(each["errorCode"] == 0 for each in results)
                        is_sound = all(each["errorCode"] == 0 or each["errorMsg"] for each in results)
                    else:
                        is_sound = answer.status < 500 and bool(told["reason"])
                    if not is_sound:
                        failures.append(f"{body!r}: {answer.status} {told}")
            counted = 0
            for topic in topics:
                url = f"{server.web_url}/admin/v2/persistent/public/default/{topic}/stats"
                async with session.get(url) as answer:
                    counted += (await answer.json())["msgInCounter"]
    finally:
        await server.stop()
    assert not failures, "\n" + "\n".join(each[:600] for each in failures)
    assert stored == counted > CALLS // 4, "the bodies are not all refused, and what is answered is what is stored"
    assert not [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


class ClosedProducer:
    """A producer whose topic answers some SENDs and then closes it."""

    is_closed = False

    def __init__(self, connection: HttpProducer, answers: list[Callable[[], None]]) -> None:
        self._connection = connection
        self._answers = answers

    def publish(self, sends: object) -> None:
        loop = asyncio.get_running_loop()
        for each in self._answers:
            loop.call_soon(each)
        loop.call_soon(self._connection.close_producer, 1)


async def test_what_a_topic_leaves_without_an_answer_is_not_called_stored() -> None:
    connection = HttpProducer("/127.0.0.1:1")
    refusal = send_error_frame(1, 1, pb.NotAllowedError, "too large")
    answers: list[Callable[[], None]] = [
        partial(connection.write_run, [(0, None)], 5, 7),
        partial(connection.write, refusal),
        partial(connection.write_unstored, [(2, None)], -1, -1),
    ]
    producer = cast(Producer, ClosedProducer(connection, answers))
    sends = [(pb.CommandSend(producer_id=1, sequence_id=number), b"") for number in range(5)]
    results = await asyncio.wait_for(connection.publish(producer, sends), 10)
    assert results == [Position(5, 7), "too large", Position(-1, -1), CLOSED_MEANWHILE, CLOSED_MEANWHILE]


def test_the_budget_of_all_calls_is_kept() -> None:
    publishing = HttpPublishing(100)
    with publishing.taking(60), pytest.raises(TooManyRequests, match="try again"), publishing.taking(41):
        pass
    with publishing.taking(100):
        assert publishing.bytes_in_progress == 100
    assert publishing.bytes_in_progress == 0
    with HttpPublishing(0).taking(1 << 40):
        pass
