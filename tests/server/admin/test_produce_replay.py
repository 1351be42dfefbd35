"""Calls that publish, as they were recorded from Apache Pulsar 4.0.7: the answers, and what was stored."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.server.admin.produce_scene import site

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "rest_produce.json").read_text())

DIFFERENCES = {
    "Topic persistent://public/produce/missing not found": 404,
    "Topic non-persistent://public/produce/np not found": 404,
    "Namespace not found": 404,
    '\\"messages\\" is null': 400,
    '\\"request\\" is null': 400,
    '\\"array\\" is null': 200,
    "`java.lang.String` from Object value": 200,
    "Unable to add schema SchemaData(type=INT32": 409,
    "Unable to add schema SchemaData(type=AVRO": 409,
    "Unable to add schema SchemaData(type=PROTOBUF": 422,
    '\\"schemaAndMetadata\\" is null': 404,
    "Fail to add or retrieve schema.": 400,
    "Managed ledger was already terminated": 409,
}
"""Maps a part of Apache's answer to the status that is given here instead of Apache's; see compat_tests/NOTES.md for
the reasons."""
OTHER_DIFFERENCES = {"plain/partitions/0": 404, "parts/partitions/9": 404, "parts/partitions/x": 400}
"""Further statuses of this kind, by the end of the path."""
NO_ANSWER = {0: 422}
"""Apache gives no answer at all to a call with an unknown schema type."""

REFUSED = {
    "kind-boolean": ["no"],
    "kind-int8": ["128"],
    "kind-int16": ["x"],
    "kind-int32": ["seven", "1.5"],
    "json": ["{bad"],
    "avro": ['{"a": 1}', '{"a": 1, "b": null, "c": 1}'],
    "kv": ["bad"],
}
"""By topic: texts that are refused here. Apache publishes them as something else, mostly as an empty message."""


def wanted_status(exchange: dict[str, Any]) -> int:
    for text, status in DIFFERENCES.items():
        if text in exchange["rb"]:
            return status
    for end, status in OTHER_DIFFERENCES.items():
        if exchange["p"].endswith(end):
            return status
    recorded: int = exchange["s"]
    if recorded == 200 and exchange["p"].endswith("parts-partition-1"):
        return recorded
    return NO_ANSWER.get(recorded, recorded)


def test_apache_s_exchanges(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        for exchange in VECTORS["exchanges"]:
            body = exchange.get("qb")
            status, answer = here.call(exchange["m"], exchange["p"], None if body is None else body.encode())
            said = f"{exchange['m']} {exchange['p']} {body}: {status} {answer}"
            recorded = exchange["s"]
            # The helper takes every success for status 200.
            assert status == (200 if wanted_status(exchange) == 204 else wanted_status(exchange)), said
            if status >= 400:
                assert answer["reason"], said
            elif status == recorded and "messagePublishResults" in exchange["rb"]:
                theirs = json.loads(exchange["rb"])
                assert answer["schemaVersion"] == theirs["schemaVersion"], said
                texts = [each["payload"] for each in json.loads(body)["messages"]]
                refused = REFUSED.get(exchange["p"].rpartition("/")[2], [])
                for text, ours in zip(texts, answer["messagePublishResults"], strict=True):
                    assert ours["errorCode"] == (2 if text in refused else 0), said
                    assert bool(ours.get("errorMsg")) == bool(ours["errorCode"]), said
            elif exchange["p"].endswith("/schema") and exchange["m"] == "GET":
                theirs = json.loads(exchange["rb"])
                assert {**answer, "timestamp": 0} == {**theirs, "timestamp": 0}, said
        for topic, messages in VECTORS["stored"].items():
            if topic.startswith("parts") or topic == "plain":
                continue
            ours = [
                {
                    "data": base64.b64encode(each.data()).decode(),
                    "key": each.partition_key(),
                    "properties": each.properties(),
                    "event_time": each.event_timestamp(),
                    "producer": each.producer_name(),
                }
                for each in here.stored(f"persistent://public/produce/{topic}")
            ]
            assert ours == stored_here(topic, messages), topic


def stored_here(topic: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns what is stored here for the messages that Apache stored; those whose text is refused are missing."""
    published = next(
        json.loads(each["qb"])["messages"]
        for each in VECTORS["exchanges"]
        if each["p"].endswith(f"/produce/{topic}") and each["m"] == "POST"
    )
    kept = [
        dict(stored)
        for stored, sent in zip(messages, published, strict=True)
        if sent["payload"] not in REFUSED.get(topic, [])
    ]
    if topic == "kind-date":
        kept[1] = kept[0]  # an ISO date, which Apache refuses
    if topic == "json":
        kept[1]["data"] = base64.b64encode(b'{"zzz":1.10}').decode()  # Apache writes 1.1
    return kept
