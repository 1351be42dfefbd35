"""Publishing over HTTP: what the official client reads of what was published, and what the topic's policies refuse."""

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import jwt
import pulsar
import pytest

from tests.server.admin.produce_scene import PLAIN, site
from tests.server.served import serving


def test_a_message_has_all_that_was_given(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        message = {
            "payload": "grüße",
            "key": "k",
            "properties": {"a": "1", "b": "2"},
            "eventTime": "1700000000000",
            "sequenceId": 7,
            "replicationClusters": ["standalone"],
        }
        first, second, third = here.publish([message, {"payload": ""}, {"payload": 5}], producerName="mine")
        stored = here.stored("t")
        assert [each.data().decode() for each in stored] == ["grüße", "", "5"]
        found = stored[0]
        assert (found.partition_key(), found.properties()) == ("k", {"a": "1", "b": "2"})
        assert (found.event_timestamp(), found.producer_name()) == (1700000000000, "mine")
        for result, each in zip((first, second, third), stored, strict=True):
            place = each.message_id()
            assert result == {
                "messageId": f"{place.ledger_id()}:{place.entry_id()}:-1",
                "errorCode": 0,
                "schemaVersion": 0,
            }


class Reading(pulsar.schema.Record):  # type: ignore[misc]
    name = pulsar.schema.String()
    degrees = pulsar.schema.Double()


def test_a_client_with_the_schema_reads_it(tmp_path: Path) -> None:
    definition = pulsar.schema.AvroSchema(Reading).schema_info().schema()
    schema = {"type": "AVRO", "schema": json.loads(definition)}
    with site(tmp_path) as here:
        consumer = here.client.subscribe("t", "s", schema=pulsar.schema.AvroSchema(Reading))
        here.publish(
            [{"payload": json.dumps({"name": {"string": "here"}, "degrees": {"double": 21.5}})}], valueSchema=schema
        )
        found = consumer.receive(10_000)
        assert (found.value().name, found.value().degrees) == ("here", 21.5)
        assert found.schema_version() == "\0" * 8, "the message carries its schema's version"
        status, answer = here.call("POST", PLAIN, {"messages": [{"payload": "1"}], "valueSchema": '{"type":"INT32"}'})
        assert (status, "schema" in answer["reason"]) == (409, True)


def test_partitions_have_their_turn_over_many_calls(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        here.call("PUT", "/admin/v2/persistent/public/default/p/partitions", 3)
        here.call("PUT", "/admin/v2/non-persistent/public/default/n/partitions", 2)
        path = "/topics/persistent/public/default/p"
        for number in range(6):
            here.publish([{"payload": str(number)}], path)
        here.publish([{"payload": str(number)} for number in range(6, 12)], path)
        for index in range(3):
            stored = here.stored(f"p-partition-{index}")
            numbers = [int(each.data()) for each in stored]
            assert (len(numbers), numbers) == (4, sorted(numbers))
        assert here.publish([{"payload": "x"}], f"{path}/partitions/2")[0]["messageId"].endswith(":2")
        results = here.publish([{"payload": "x"}] * 2, "/topics/non-persistent/public/default/n")
        assert {each["messageId"].rpartition(":")[2] for each in results} == {"0", "1"}


def test_delays_are_kept(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        consumer = here.client.subscribe("t", "s", pulsar.ConsumerType.Shared)
        far = 4_000_000_000_000
        here.publish([{"payload": "late", "deliverAfterMs": 400}, {"payload": "far", "deliverAt": far}])
        here.publish([{"payload": "now"}, {"payload": "past", "deliverAt": 1}])
        found = [consumer.receive(10_000).data().decode() for _ in range(3)]
        assert (set(found[:2]), found[2]) == ({"now", "past"}, "late")
        assert here.publish([{"payload": "x", "deliverAt": -1}])[0]["errorMsg"] == "deliverAt must be 0 or more, not -1"


def test_a_repeated_call_is_stored_once_where_messages_are_deduplicated(tmp_path: Path) -> None:
    with site(tmp_path, brokerDeduplicationEnabled="true") as here:
        messages = [{"payload": "a", "sequenceId": 1}, {"payload": "b", "sequenceId": 2}]
        for _ in range(2):
            last = here.publish(messages, producerName="job-17")
        assert [each["messageId"] for each in last] == ["-1:-1:-1"] * 2
        here.publish([{"payload": "c"}], producerName="job-17")
        here.publish([{"payload": "d"}])
        here.publish([{"payload": "e"}])
        assert [each.data() for each in here.stored("t")] == [b"a", b"b", b"c", b"d", b"e"]


def test_calls_at_once_do_not_wait_for_each_other_s_names(tmp_path: Path) -> None:
    with site(tmp_path) as here:

        def publish(number: int) -> None:
            for each in range(10):
                here.publish([{"payload": f"{number}:{each}"}], producerName="same")

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = [each.data().decode() for each in here.stored("t")]
        assert sorted(stored) == sorted(f"{number}:{each}" for number in range(8) for each in range(10))
        stats = here.json("/admin/v2/persistent/public/default/t/stats")
        assert (stats["publishers"], stats["msgInCounter"]) == ([], 80)


@pytest.mark.parametrize(
    ("policy", "value", "status", "said"),
    [
        ("maxMessageSize", 20, 200, "Exceed maximum message size"),
        ("publishRate", {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 1}, 429, "publish rate"),
    ],
)
def test_policies_of_the_topic_hold(tmp_path: Path, policy: str, value: Any, status: int, said: str) -> None:
    with site(tmp_path) as here:
        here.call("POST", f"/admin/v2/persistent/public/default/t/{policy}", value)
        bodies = [here.call("POST", PLAIN, {"messages": [{"payload": "x" * 100}]}) for _ in range(3)]
        assert bodies[-1][0] == status
        assert said in json.dumps(bodies[-1][1])


def test_encryption_and_exclusive_producers_are_respected(tmp_path: Path) -> None:
    body = {"messages": [{"payload": "x"}]}
    with site(tmp_path) as here:
        with_access = here.client.create_producer("t", access_mode=pulsar.ProducerAccessMode.Exclusive)
        assert here.call("POST", PLAIN, body)[0] == 409
        with_access.close()
        assert here.call("POST", PLAIN, body)[0] == 200
        here.call("POST", "/admin/v2/namespaces/public/default/encryptionRequired", True)
        status, answer = here.call("POST", PLAIN, body)
        assert (status, answer["reason"].startswith("Encryption is required")) == (412, True)


def test_a_backlog_quota_stops_calls_as_it_stops_producers(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        here.client.subscribe("t", "s").close()
        quota = {"limitSize": 10, "policy": "producer_exception"}
        here.call("POST", "/admin/v2/persistent/public/default/t/backlogQuota", quota)
        answers = [here.call("POST", PLAIN, {"messages": [{"payload": "x" * 1_000}]}) for _ in range(2)]
        assert [status for status, _ in answers] == [200, 503]
        assert answers[1][1]["reason"] == "Cannot create producer on topic with backlog quota exceeded"
        assert len(here.stored("t")) == 1


@pytest.mark.parametrize(
    ("encoding", "key", "data"),
    [
        ("INLINE", "", b"\0\0\0\4\0\0\0\7\0\0\0\5seven"),
        ("SEPARATED", "AAAABw==", b"seven"),
    ],
)
def test_pairs_are_stored_as_their_registered_schema_says(tmp_path: Path, encoding: str, key: str, data: bytes) -> None:
    properties = {"key.schema.type": "INT32", "value.schema.type": "STRING", "kv.encoding.type": encoding}
    schema = {"type": "KEY_VALUE", "schema": '{"key":"","value":""}', "properties": properties}
    with site(tmp_path) as here:
        assert here.call("POST", "/admin/v2/schemas/public/default/t/schema", schema)[0] == 200
        messages: list[dict[str, Any]] = [
            {"key": "7", "payload": "seven"},
            {"key": "x", "payload": "no"},
            {"payload": "k"},
        ]
        results = here.publish(messages, schemaVersion=0)
        assert [each["errorCode"] for each in results] == [0, 2, 0]
        first, second = here.stored("t")
        assert (first.partition_key(), first.data()) == (key, data)
        assert second.data() == (b"\xff\xff\xff\xff\0\0\0\1k" if encoding == "INLINE" else b"k")


def test_who_may_produce_on_the_binary_port_may_over_http(tmp_path: Path) -> None:
    key = "k" * 40
    overrides = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:,{key}",
        "superUserRoles": "root",
    }

    def call(method: str, path: str, role: str, body: Any = None) -> int:
        request = urllib.request.Request(served.web_url + path, method=method)
        request.add_header("Content-Type", "application/json")
        if role:
            request.add_header("Authorization", f"Bearer {jwt.encode({'sub': role}, key, algorithm='HS256')}")
        try:
            with urllib.request.urlopen(request, json.dumps(body).encode(), timeout=60) as answer:
                return 200 if answer.status == 204 else int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    with serving(tmp_path, overrides=overrides) as served:
        admin, body = "/admin/v2/persistent/public/default", {"messages": [{"payload": "x"}]}
        assert call("PUT", f"{admin}/t", "root") == 200
        assert call("PUT", f"{admin}/p/partitions", "root", 2) == 200
        for role, actions in (("writer", ["produce"]), ("reader", ["consume"])):
            for topic in ("t", "p"):
                assert call("POST", f"{admin}/{topic}/permissions/{role}", "root", actions) == 200
        for path in (PLAIN, "/topics/persistent/public/default/p", "/topics/persistent/public/default/p/partitions/1"):
            assert [call("POST", path, role, body) for role in ("", "reader", "writer", "root")] == [401, 401, 200, 200]
        assert call("POST", "/topics/persistent/public/default/other", "writer", body) == 401


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"messages": [{"payload": "x"}] * 1_001}, 413, "1001 are too many"),
        ({"messages": [], "producerName": "x" * 1_025}, 400, "producerName"),
        ({"messages": [], "schemaVersion": -2}, 400, "no version -2"),
        ({"messages": [], "valueSchema": {"type": "AVRO", "schema": "{"}}, 422, "AVRO"),
        ({"messages": [], "valueSchema": {"type": "AVRO", "schema": "é"}}, 400, "neither JSON nor base64"),
        ({"messages": [], "valueSchema": {"type": "STRING", "properties": {"__charset": "rot13"}}}, 422, "rot13"),
        ({"messages": {}}, 400, "messages must be a list"),
        ([], 400, "must be an object"),
        (b"\xff", 400, "not JSON"),
        (b"[" * 900_000, 400, "not JSON"),
    ],
)
def test_a_wrong_body_is_refused_with_the_reason(tmp_path: Path, body: Any, status: int, said: str) -> None:
    with site(tmp_path) as here:
        found, answer = here.call("POST", PLAIN, body)
        assert (found, said in answer["reason"]) == (status, True), answer
        assert here.stored("t") == []


def test_long_bodies_do_not_hold_up_others(tmp_path: Path) -> None:
    """`serving` fails the test when a callback holds the loop for long."""
    schema = {"type": "AVRO", "schema": {"type": "array", "items": "int"}}
    with site(tmp_path) as here:
        assert here.publish([{"payload": json.dumps([1] * 150_000)}], valueSchema=schema)[0]["errorCode"] == 0
        results = here.publish(
            [{"payload": "[1]", "properties": {str(k): "v" for k in range(60)}}] * 900, schemaVersion=0
        )
        assert {each["errorCode"] for each in results} == {0}
        many = {str(number): "" for number in range(5_000)}
        assert "metadata" in here.publish([{"payload": "[1]", "properties": many}], schemaVersion=0)[0]["errorMsg"]
