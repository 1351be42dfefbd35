"""Commands of several calls: what they ask first, what they make of the answers, and what they print."""

import io
import json
from typing import Any

import pytest

from magnetar.server.tools.admin.admin_errors import CommandError, UsageError
from magnetar.server.tools.admin.message_steps import messages_of
from magnetar.server.tools.admin.topic_steps import first_ledger_within
from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.http_client import Answer
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch
from tests.server.tools.admin.scene import Recorded, run_words

TOPIC = "/admin/v2/persistent/public/default/t"
SYSTEM = "?includeSystemTopic=false"


def answering(**by_path: Any) -> Recorded:
    return Recorded({path: json.dumps(value).encode() for path, value in by_path.items()})


def paths(http: Recorded) -> list[tuple[str, str]]:
    return [(method, path) for method, path, *_ in http.calls]


def test_topics_of_both_domains_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    http = answering(
        **{
            f"/admin/v2/persistent/a/b{SYSTEM}": ["persistent://a/b/x", "persistent://a/b/y"],
            f"/admin/v2/non-persistent/a/b{SYSTEM}": ["non-persistent://a/b/z", "persistent://a/b/x"],
        }
    )
    run_words(["topics", "list", "a/b"], http)
    assert capsys.readouterr().out == "persistent://a/b/x\npersistent://a/b/y\nnon-persistent://a/b/z\n"


def test_the_brokers_of_partitions_are_shown_by_partition_or_by_broker(capsys: pytest.CaptureFixture[str]) -> None:
    http = answering(
        **{
            f"{TOPIC}/partitions": {"partitions": 2},
            "/lookup/v2/topic/persistent/public/default/t-partition-0": {"brokerUrl": "pulsar://b1"},
            "/lookup/v2/topic/persistent/public/default/t-partition-1": {"brokerUrl": "pulsar://b1"},
        }
    )
    first, second = (f"persistent://public/default/t-partition-{index}" for index in range(2))
    run_words(["topics", "partitioned-lookup", "t"], http)
    assert capsys.readouterr().out == f"{first}    pulsar://b1\n{second}    pulsar://b1\n"
    run_words(["topics", "partitioned-lookup", "t", "-s"], http)
    assert capsys.readouterr().out == f"pulsar://b1    [{first}, {second}]\n"
    with pytest.raises(CommandError, match="is not a partitioned topic"):
        run_words(["topics", "partitioned-lookup", "t"], answering(**{f"{TOPIC}/partitions": {"partitions": 0}}))


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        ("create t", TOPIC, b"{}"),
        ("create t -m a=b", TOPIC, b'{"a": "b"}'),
        ("create t 0", TOPIC, b"{}"),
        ("create t 4", f"{TOPIC}/partitions?createLocalTopicOnly=false", b"4"),
    ],
)
def test_a_topic_is_created_with_the_number_of_partitions_that_pulsarctl_takes(
    words: str, path: str, body: bytes
) -> None:
    http = answering()
    run_words(["topics", *words.split()], http)
    assert [call[:3] for call in http.calls] == [["PUT", path, body]]


def test_update_takes_the_number_of_partitions_as_pulsarctl_does() -> None:
    http = answering()
    run_words(["topics", "update", "t", "8"], http)
    assert [call[:3] for call in http.calls] == [
        ["POST", f"{TOPIC}/partitions?updateLocalTopicOnly=false&force=false", b"8"]
    ]


@pytest.mark.parametrize("words", ["create t -1", "create t four", "update t 1e3", "create t 4 5", "update t"])
def test_what_is_no_number_of_partitions_is_refused(words: str) -> None:
    http = answering()
    with pytest.raises(UsageError):
        run_words(["topics", *words.split()], http)
    assert http.calls == []


def test_topics_that_match_are_deleted_and_failures_are_told_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    http = answering(
        **{
            f"/admin/v2/persistent/a/b{SYSTEM}": ["persistent://a/b/old-1", "persistent://a/b/new", "bad"],
            f"/admin/v2/non-persistent/a/b{SYSTEM}": [],
        }
    )
    run_words(["topics", "delete", "persistent://a/b/old-.*", "-r", "-f"], http)
    assert [call for call in paths(http) if call[0] != "GET"] == [
        ("DELETE", "/admin/v2/persistent/a/b/old-1?force=true&deleteSchema=true")
    ]
    assert capsys.readouterr().out == ""

    class Refusing(Recorded):
        def _exchange(self, *_: Any) -> Answer:
            return Answer(412, {}, b'{"reason":"has consumers"}')

    run_words(["topics", "delete", "t"], Refusing())
    assert capsys.readouterr().out == (
        "Failed to delete topic: t. Exception: "
        "org.apache.pulsar.client.admin.PulsarAdminException$PreconditionFailedException: has consumers\n"
    )
    with pytest.raises(UsageError, match="is no regular expression"):
        run_words(["topics", "delete", "persistent://a/b/(", "-r"], http)


def test_the_topics_of_a_file_are_deleted(tmp_path: Any) -> None:
    names = tmp_path / "topics.txt"
    names.write_text("persistent://a/b/x\nb/c/y\n")
    http = Recorded()
    run_words(["topics", "delete", str(names), "--from-file"], http)
    assert [path.partition("?")[0] for _, path in paths(http)] == [
        "/admin/v2/persistent/a/b/x",
        "/admin/v2/persistent/b/c/y",
    ]
    with pytest.raises(CommandError, match="No such file"):
        run_words(["topics", "delete", "/no/such/file", "--from-file"], http)


def test_a_tenant_may_use_all_clusters_unless_some_are_named() -> None:
    http = answering(**{"/admin/v2/clusters": ["c1", "c2"]})
    run_words(["tenants", "create", "a", "-r", "x,y"], http)
    assert json.loads(http.calls[1][2]) == {"adminRoles": ["x", "y"], "allowedClusters": ["c1", "c2"]}
    stored = answering(**{"/admin/v2/tenants/a": {"adminRoles": ["x"], "allowedClusters": ["c1"]}})
    run_words(["tenants", "update", "a", "-c", "c2"], stored)
    assert json.loads(stored.calls[1][2]) == {"adminRoles": ["x"], "allowedClusters": ["c2"]}


def test_a_cluster_is_deleted_with_all_that_it_has() -> None:
    http = answering(
        **{
            "/admin/v2/tenants": ["a"],
            "/admin/v2/namespaces/a": ["a/b"],
            f"/admin/v2/persistent/a/b/partitioned{SYSTEM}": ["persistent://a/b/p"],
            f"/admin/v2/non-persistent/a/b/partitioned{SYSTEM}": [],
            f"/admin/v2/persistent/a/b{SYSTEM}": ["persistent://a/b/t"],
            f"/admin/v2/non-persistent/a/b{SYSTEM}": [],
        }
    )
    run_words(["clusters", "delete", "c", "--all"], http)
    assert [path for method, path in paths(http) if method == "DELETE"] == [
        "/admin/v2/persistent/a/b/p/partitions?force=true&deleteSchema=true",
        "/admin/v2/persistent/a/b/t?force=true&deleteSchema=true",
        "/admin/v2/namespaces/a/b?force=true",
        "/admin/v2/tenants/a?force=false",
        "/admin/v2/clusters/c",
    ]


def test_a_cluster_is_read_from_a_file_over_which_options_win(tmp_path: Any) -> None:
    for text in ('{"serviceUrl": "http://f:1", "listenerName": "l"}', "serviceUrl: http://f:1\nlistenerName: 'l'\n"):
        file = tmp_path / "cluster"
        file.write_text(text)
        http = Recorded()
        run_words(["clusters", "create", "c", "--cluster-config-file", str(file), "--url", "http://o:1"], http)
        body = json.loads(http.calls[0][2])
        assert (body["serviceUrl"], body["listenerName"]) == ("http://o:1", "l")
    file.write_text("no pair")
    with pytest.raises(UsageError, match="'no pair' is not `key: value`"):
        run_words(["clusters", "create", "c", "--cluster-config-file", str(file)], http)


@pytest.mark.parametrize(("answer", "calls"), [("Y\n", 1), ("x\nyes\n", 1), ("n\n", 0), ("", 0)])
def test_a_backlog_is_cleared_after_a_yes(answer: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    http = Recorded()
    run_words(["namespaces", "clear-backlog", "a/b"], http)
    assert len(http.calls) == calls


def test_a_shadow_has_as_many_partitions_as_its_source() -> None:
    http = answering(**{"/admin/v2/persistent/a/b/s/partitions": {"partitions": 3}})
    run_words(["topics", "create-shadow-topic", "t", "-s", "a/b/s", "-p", "x=y"], http)
    assert json.loads(http.calls[1][2]) == {
        "partitions": 3,
        "deleted": False,
        "properties": {"x": "y", "PULSAR.SHADOW_SOURCE": "persistent://a/b/s"},
    }


@pytest.mark.parametrize(
    ("status", "said", "fault"),
    [
        (
            {"status": "NOT_RUN"},
            "Compaction has not been run for persistent://public/default/t since broker startup",
            "",
        ),
        ({"status": "SUCCESS"}, "Compaction was a success", ""),
        ({"status": "ERROR", "lastError": "disk"}, "Error in compaction", "Error compacting: disk"),
    ],
)
def test_the_state_of_a_compaction_is_a_sentence(
    status: dict[str, str], said: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    http = answering(**{f"{TOPIC}/compaction": status})
    if fault:
        with pytest.raises(CommandError, match=fault):
            run_words(["topics", "compaction-status", "t", "-w"], http)
    else:
        run_words(["topics", "compaction-status", "t"], http)
    assert capsys.readouterr().out == said + "\n"


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0, 3), (9, 3), (10, 3), (29, 3), (30, 2), (59, 2), (60, None), (100, None)]
)
def test_the_newest_ledgers_within_the_threshold_stay(threshold: int, expected: int | None) -> None:
    assert first_ledger_within([(1, 30), (2, 20), (3, 10)], threshold) == expected


def test_an_offload_begins_before_the_ledgers_that_stay(capsys: pytest.CaptureFixture[str]) -> None:
    stats = {"ledgers": [{"ledgerId": 1, "size": 30}, {"ledgerId": 2, "size": 0}], "currentLedgerSize": 5}
    http = answering(**{f"{TOPIC}/internalStats?metadata=false": stats})
    run_words(["topics", "offload", "t", "-s", "10"], http)
    assert json.loads(http.calls[1][2])["ledgerId"] == 2
    run_words(["topics", "offload", "t", "-s", "1M"], http)
    assert capsys.readouterr().out == (
        "Offload triggered for persistent://public/default/t for messages before 2:0:-1\nNothing to offload\n"
    )
    with pytest.raises(CommandError, match="Topic doesn't have any data"):
        run_words(
            ["topics", "offload", "t", "-s", "1M"],
            answering(**{f"{TOPIC}/internalStats?metadata=false": {"ledgers": []}}),
        )


def test_messages_of_a_batch_are_told_apart() -> None:
    singles = []
    for index in range(2):
        metadata = pb.SingleMessageMetadata(payload_size=3)
        metadata.properties.add(key="k", value=str(index))
        singles.append((metadata, b"m-%d" % index))
    headers = {
        "x-pulsar-message-id": "3:4",
        "x-pulsar-num-batch-message": "2",
        "x-pulsar-publish-time": "2024-01-02T03:04:05.678Z",
        "x-pulsar-property": '{"a":"b"}',
    }
    first, second = messages_of(Answer(200, headers, build_batch(singles)))
    assert (first.message_id, second.message_id) == ("3:4:0", "3:4:1")
    assert (first.payload, second.payload) == (b"m-0", b"m-1")
    assert first.publish_time == 1_704_164_645_678
    assert second.properties == {"X-Pulsar-num-batch-message": "2", "a": "b", "k": "1"}


def test_what_was_not_committed_and_what_brokers_write_is_left_out() -> None:
    assert messages_of(Answer(200, {"x-pulsar-txn-aborted": "true"}, b"x"), committed_only=True) == []
    assert messages_of(Answer(200, {"x-pulsar-marker-type": "21"}, b"x"), markers=False) == []
    assert messages_of(Answer(200, {"x-pulsar-marker-type": "21"}, b"x"))[0].marker == 21
    (plain,) = messages_of(Answer(200, {"x-pulsar-message-id": "3:4"}, b"x"), markers=False, committed_only=True)
    assert (plain.message_id, plain.payload) == ("3:4", b"x")


def test_a_subscription_without_messages_shows_none_and_a_refusal_is_a_failure() -> None:
    run_words(["topics", "peek-messages", "t", "-s", "s"], Recorded())

    class Refusing(Recorded):
        def _exchange(self, *_: Any) -> Answer:
            return Answer(401, {}, b'{"reason":"who are you?"}')

    with pytest.raises(AdminCallError, match="who are you"):
        run_words(["topics", "peek-messages", "t", "-s", "s"], Refusing())


def test_a_schema_is_read_from_a_file(tmp_path: Any) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "STRING", "schema": "", "unknown": 1}')
    http = Recorded()
    run_words(["schemas", "upload", "t", "-f", str(file)], http)
    assert json.loads(http.calls[0][2]) == {"type": "STRING", "schema": "", "properties": {}}
    with pytest.raises(CommandError, match=r"Schema file /no/such is not found\."):
        run_words(["schemas", "upload", "t", "-f", "/no/such"], http)
    file.write_text("[]")
    with pytest.raises(CommandError, match="does not hold an object"):
        run_words(["schemas", "upload", "t", "-f", str(file)], http)


def test_packages_and_functions_send_files(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.jar"
    file.write_bytes(b"PK\x03\x04")
    http = Recorded()
    name = "function://a/b/f@v1"
    run_words(["packages", "upload", name, "--description", "d", "--path", str(file)], http)
    method, path, body, media_type = http.calls[0]
    assert (method, path) == ("POST", "/admin/v3/packages/function/a/b/f/v1")
    boundary = media_type.removeprefix("multipart/form-data; boundary=").encode()
    assert body.startswith(b"--" + boundary)
    assert body.endswith(b"--" + boundary + b"--\r\n")
    assert b'name="file"; filename="my.jar"\r\n' in body
    assert b"\r\n\r\nPK\x03\x04\r\n" in body
    assert capsys.readouterr().out == f"The package '{name}' uploaded from path '{file}' successfully\n"
    with pytest.raises(UsageError, match="Invalid package name"):
        run_words(["packages", "delete", "f"], http)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["functions", "get"], "You must specify a name for the function or a Fully Qualified"),
        (["functions", "get", "--fqfn", "a/b"], "must be of the form tenant/namespace/name"),
        (["functions", "get", "--fqfn", "a/b/c", "--name", "c"], "You must specify either"),
        (["sinks", "stop", "--name", "s", "--instance-id", "x"], "instance-id must be a number"),
        (["resource-quotas", "get", "-n", "a/b"], "must be provided together"),
        (["topics", "update-subscription-properties", "t", "-s", "s"], "you have to use --clear"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words: list[str], complaint: str) -> None:
    http = Recorded()
    with pytest.raises(UsageError, match=complaint):
        run_words(words, http)
    assert http.calls == []


def test_answers_are_shown_in_other_forms(capsys: pytest.CaptureFixture[str]) -> None:
    http = answering(**{f"{TOPIC}/partitions": {"partitions": 3}})
    shown = {}
    for form in ("text", "json", "yaml", "table"):
        run_words(["topics", "get-partitioned-topic-metadata", "t"], http, form)
        shown[form] = capsys.readouterr().out
    assert shown["text"] == shown["json"] == '{\n  "partitions" : 3\n}\n'
    assert shown["yaml"] == "partitions: 3\n"
    assert shown["table"] == "partitions  3\n"


def test_an_answer_that_no_broker_gives_is_named() -> None:
    path = "/admin/v2/tenants"
    with pytest.raises(CommandError, match="the server's answer was not understood: <html>"):
        run_words(["tenants", "list"], Recorded({path: b"<html>"}))
    with pytest.raises(CommandError, match="was not understood: 5"):
        run_words(["topics", "permissions", "t"], Recorded({f"{TOPIC}/permissions": b"5"}))


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["-t", "-1", "-s", "-1"], {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}),
        (["-t", "119", "-s", "2047K"], {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}),
        (["-t", "0", "-s", "0"], {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}),
    ],
)
def test_retention_is_sent_in_minutes_and_megabytes(words: list[str], body: dict[str, int]) -> None:
    http = Recorded()
    run_words(["namespaces", "set-retention", "a/b", *words], http)
    assert json.loads(http.calls[0][2]) == body


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        ("AVRO", '{"type":"int"}', {"type": "int"}),
        ("STRING", "", ""),
        ("STRING", "null", "bnVsbA=="),
        ("JSON", "{", "{"),
    ],
)
def test_a_schema_s_definition_is_shown_as_by_java(
    kind: str, data: str, shown: object, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"version": 3, "type": kind, "timestamp": 7, "data": data, "properties": {"a": "b"}}
    http = answering(**{"/admin/v2/schemas/public/default/t/schema": answer})
    run_words(["schemas", "get", "t"], http)
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 3
    assert told["schemaInfo"] == {"name": "t", "schema": shown, "type": kind, "timestamp": 7, "properties": {"a": "b"}}
