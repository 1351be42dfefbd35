"""What `magnetar produce` publishes and `magnetar read` prints, compared with what the official client sees."""

import json
import random
import re
import time
from pathlib import Path

import pulsar
import pytest

from compat_tests.conftest import ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.messages.commands import done, joined, lines, refused, run
from compat_tests.python.rest import Admin
from compat_tests.python.support import bodies, read_bodies, send_all
from compat_tests.wire import SEND, SEND_RECEIPT, WireClient, message_metadata, payload

SCHEMA = {
    "type": "record",
    "name": "Person",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "picture", "type": "bytes"},
    ],
}
PEOPLE = [{"name": "Änne", "age": 33, "picture": "\x00ÿ"}, {"name": "Bo", "age": None, "picture": ""}]


def messages_of(client: pulsar.Client, topic: str, count: int) -> list[pulsar.Message]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    return [reader.read_next(60_000) for _ in range(count)]


def test_lines_in_are_lines_out(server: Server, topic: str, client: pulsar.Client) -> None:
    told = lines(2500)
    assert done(server, "produce", topic, input=joined(told)) == b""
    assert read_bodies(client.create_reader(topic, pulsar.MessageId.earliest), 2500) == told
    assert done(server, "read", topic) == joined(told)


def test_any_bytes_go_through_unchanged(server: Server, topic: str, client: pulsar.Client) -> None:
    rng = random.Random(5)
    values = [rng.randbytes(size).replace(b"\0", b"") for size in (1, 10, 1000, 200_000)] + [b"\n", b"\r\n", b"\xff"]
    done(server, "produce", topic, "-D", "\\0", input=b"\0".join(values))
    assert [each.data() for each in messages_of(client, topic, len(values))] == values
    assert done(server, "read", topic, "-F", "%v\\0") == b"".join(value + b"\0" for value in values)


def test_json_carries_messages_from_topic_to_topic(server: Server, topic: str, client: pulsar.Client) -> None:
    producer = client.create_producer(topic)
    producer.send(bytes(range(256)), properties={"ä": "1"}, partition_key="key", event_timestamp=5)
    producer.send(b"text", ordering_key="o")
    producer.send(None, partition_key="gone")
    printed = done(server, "read", topic, "-o", "json")
    assert [json.loads(line).get("valueEncoding") for line in printed.splitlines()] == ["base64", None, None]
    done(server, "produce", f"{topic}-copy", "-o", "json", input=printed)
    for original, copy in zip(messages_of(client, topic, 3), messages_of(client, f"{topic}-copy", 3), strict=True):
        for get in ("data", "properties", "partition_key", "ordering_key", "event_timestamp", "has_null_value"):
            assert getattr(copy, get)() == getattr(original, get)(), get


def test_keys_properties_times_and_empty_values(server: Server, topic: str, client: pulsar.Client) -> None:
    options = ("-p", "a=1", "-p", "b=x=y", "--event-time", "@1763966400123", "--name", "shell", "-Z")
    done(server, "produce", topic, "-K", ":", *options, input=b"k:v:w\nno key\nempty:\n")
    first, second, third = messages_of(client, topic, 3)
    assert (first.partition_key(), first.data(), second.partition_key()) == ("k", b"v:w", "")
    assert (first.properties(), first.event_timestamp()) == ({"a": "1", "b": "x=y"}, 1763966400123)
    assert (third.partition_key(), third.has_null_value(), first.producer_name()) == ("empty", True, "shell")
    form = "%k|%v|%h{b}|%e|%e{iso}|%P|%r|%t|%p\\n"
    output = done(server, "read", topic, "-n", "1", "-F", form).decode()
    assert output == f"k|v:w|x=y|1763966400123|2025-11-24T06:40:00.123Z|shell|0|{topic}|-1\n"


def test_formats_say_what_a_line_is(server: Server, topic: str, client: pulsar.Client) -> None:
    done(server, "produce", topic, "-F", "%k %h{n}: %v\\n", "-k", "default", input=b"a 1: x: y\n 2: z\n")
    first, second = messages_of(client, topic, 2)
    assert (first.partition_key(), first.properties(), first.data()) == ("a", {"n": "1"}, b"x: y")
    assert (second.partition_key(), second.data()) == ("default", b"z")


def test_texts_and_files_are_messages_as_they_are(server: Server, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "content"
    file.write_bytes(b"\x00\n\xff")
    done(server, "produce", topic, "-m", "a\nb", "-m", "ä", "-f", str(file), "-n", "2")
    output = done(server, "read", topic, "-F", "%v|")
    assert output == b"a\nb|a\nb|\xc3\xa4|\xc3\xa4|\x00\n\xff|\x00\n\xff|"


def test_printed_ids_are_those_of_the_messages_in_order(server: Server, topic: str, client: pulsar.Client) -> None:
    printed = done(server, "produce", topic, "--print-ids", "--batch-messages", "7", input=joined(lines(50)))
    assert printed == done(server, "read", topic, "-F", "%i\\n")
    first, last = printed.split()[20].decode(), printed.split()[22].decode()
    assert done(server, "read", topic, "--from", first, "-n", "1") == b"line 20\n"
    for follow in ((), ("-f",)):
        assert done(server, "read", topic, "--from", first, "--to", last, *follow) == joined(lines(50)[20:23])


@pytest.mark.parametrize("compression", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_compression(server: Server, topic: str, compression: str) -> None:
    value = b"a" * 50_000
    done(server, "produce", topic, "--compression", compression, "-m", value.decode())
    assert done(server, "read", topic) == value + b"\n"


def test_large_messages_go_in_chunks(make_server: ServerFactory, topic: str, tmp_path: Path) -> None:
    server = make_server(settings={"maxMessageSize": "100000"})
    server.start()
    file = tmp_path / "large"
    file.write_bytes(random.Random(1).randbytes(6 << 20))
    assert f"{file} has more than 5242880 bytes" in refused(run(server, "produce", topic, "-f", str(file)))
    assert "larger than the server takes" in refused(run(server, "produce", topic, "-m", "x" * 120_000))
    done(server, "produce", topic, "--chunking", "-f", str(file))
    assert done(server, "read", topic, "-F", "%v") == file.read_bytes()


def test_messages_may_come_later(server: Server, topic: str, client: pulsar.Client) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    began_s = time.monotonic()
    done(server, "produce", topic, "-m", "later", "--deliver-after", "2s", "--no-batching")
    assert consumer.receive(60_000).data() == b"later"
    assert time.monotonic() - began_s >= 2


def test_the_rate_is_kept(server: Server, topic: str) -> None:
    began_s = time.monotonic()
    done(server, "produce", topic, "-m", "x", "-n", "21", "-r", "10")
    assert time.monotonic() - began_s >= 2


def test_records_are_written_by_a_schema_file_and_read_by_the_registry(
    server: Server, topic: str, client: pulsar.Client, tmp_path: Path
) -> None:
    file = tmp_path / "person.avsc"
    file.write_text(json.dumps(SCHEMA))
    done(server, "produce", topic, "--schema", str(file), input=json.dumps(PEOPLE[0]).encode())
    done(server, "produce", topic, "--schema", "registry", input=json.dumps(PEOPLE[1]).encode())
    reader = client.create_reader(
        topic, pulsar.MessageId.earliest, schema=pulsar.schema.AvroSchema(None, schema_definition=SCHEMA)
    )
    assert reader.read_next(60_000).value() == {"name": "Änne", "age": 33, "picture": b"\x00\xff"}
    printed = done(server, "read", topic).splitlines()
    assert [json.loads(line) for line in printed] == PEOPLE
    printed = done(server, "read", topic, "-o", "json").splitlines()
    assert [(json.loads(line)["value"], json.loads(line)["schemaVersion"]) for line in printed] == [
        (person, 0) for person in PEOPLE
    ]
    assert done(server, "read", topic, "--raw", "-n", "1") == b"\n\xc3\x84nne\x02\x42\x04\x00\xff\n"


def test_lines_that_do_not_fit_the_schema_are_named(server: Server, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "JSON", "schema": json.dumps(SCHEMA)}))
    result = run(server, "produce", topic, "--schema", str(file), input=b'{"name": "a"}\n{nonsense\n{}\n')
    assert re.search(r"line 2: it is not JSON.*1 of 1 message sent was acknowledged$", refused(result))
    assert done(server, "read", topic) == b'{"name": "a"}\n'


def test_texts_have_a_schema_too(server: Server, topic: str, client: pulsar.Client) -> None:
    done(server, "produce", topic, "--schema-type", "STRING", "-m", "ä")
    (message,) = messages_of(client, topic, 1)
    assert (message.data(), message._message.int_schema_version()) == ("ä".encode(), 0)
    assert done(server, "read", topic).decode() == "ä\n"
    result = run(server, "produce", topic, "--schema-type", "STRING", input=b"\xff\n")
    assert "line 1: it is not UTF-8" in refused(result)


def test_a_topic_without_schema_has_none_in_the_registry(server: Server, topic: str) -> None:
    done(server, "produce", topic, "-m", "x")
    assert "has no schema in the registry" in refused(run(server, "produce", topic, "--schema", "registry", "-m", "{}"))


def test_read_begins_and_ends_at_times(server: Server, topic: str, client: pulsar.Client) -> None:
    producer = client.create_producer(topic)
    send_all(producer, [b"a", b"b"])
    middle_ms = int(done(server, "read", topic, "-F", "%T ").split()[-1]) + 1
    wait_until(lambda: time.time() * 1000 > middle_ms + 1, "a message has a later publish time")
    send_all(producer, [b"c", b"d"])
    assert done(server, "read", topic, "--from", f"@{middle_ms}") == b"c\nd\n"
    assert done(server, "read", topic, "--to", f"@{middle_ms}") == b"a\nb\n"
    assert done(server, "read", topic, "--from", "-1h", "--to", "now", "-n", "3") == b"a\nb\nc\n"
    assert done(server, "read", topic, "--from", "-1ms") == b""


def test_all_partitions_are_read_and_an_id_names_one_of_them(server: Server, topic: str) -> None:
    Admin(server).put(f"{topic.replace('://', '/')}/partitions", 3)
    told = [f"{number % 9}:{number}".encode() for number in range(90)]
    ids = done(server, "produce", topic, "-K", ":", "-i", "--no-batching", input=joined(told)).decode().split()
    printed = done(server, "read", topic, "-F", "%p %k %v %i\\n").decode().splitlines()
    found = [line.split() for line in printed]
    assert sorted(int(value) for _, _, value, _ in found) == list(range(90))
    assert sorted(each[3] for each in found) == sorted(ids)
    of_one_key = [int(value) for _, key, value, _ in found if key == "4"]
    assert of_one_key == sorted(of_one_key)
    partition, value = found[40][0], found[40][2]
    assert (
        done(server, "read", topic, "--from", found[40][3], "-n", "1", "-F", "%p %v").decode() == f"{partition} {value}"
    )
    ledger, entry, *_ = found[0][3].split(":")
    assert "names none of them" in refused(run(server, "read", topic, "--from", f"{ledger}:{entry}"))


def test_several_topics_and_patterns(server: Server, topic: str) -> None:
    for name in ("a", "b"):
        done(server, "produce", f"{topic}-{name}", "-m", name)
    assert sorted(done(server, "read", f"{topic}-a", f"{topic}-b").split()) == [b"a", b"b"]
    assert sorted(done(server, "read", f"{topic}-.*", "--pattern").split()) == [b"a", b"b"]
    assert "no topic of public/default matches" in refused(run(server, "read", f"{topic}-c.*", "--pattern"))


def test_compacted_topics_are_read_by_key(server: Server, topic: str) -> None:
    done(server, "produce", topic, "-K", ":", "--no-batching", input=b"a:1\nb:2\na:3\n")
    assert done(server, "read", topic, "--compacted", "-F", "%k%v ") in (b"a1 b2 a3 ", b"b2 a3 ")


def test_values_of_bytes_in_a_batch_are_as_they_were(server: Server, topic: str, client: pulsar.Client) -> None:
    send_all(client.create_producer(topic, batching_enabled=True), bodies(300))
    assert done(server, "read", topic) == joined(bodies(300))


def test_texts_of_other_clients_that_are_not_utf8_are_printed_as_well_as_can_be(server: Server, topic: str) -> None:
    bad = b"\xff\xfe"
    with WireClient(server.broker_port) as peer:
        peer.open_producer(topic)
        metadata = message_metadata("wire", 0, [(4, [(1, "a"), (2, bad)]), (6, bad)])
        peer.send(SEND, [(1, 1), (2, 0)], payload(metadata, b"value"))
        peer.expect(SEND_RECEIPT)
    result = run(server, "read", topic, "-F", "%k %v %h{a}|")
    assert (result.returncode, result.stdout.decode()) == (0, "\ufffd\ufffd value |")
    assert b"are not UTF-8 and are left out" in result.stderr
