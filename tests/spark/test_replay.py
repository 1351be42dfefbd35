"""`replay` sends ranges and dead letters again, each message once and nothing outside the range. The official client is
the judge."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

from compat_tests.harness import Server
from compat_tests.spark.job_process import JobProcess
from magnetar.spark.jobs.replay.replay import main
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"


class Order(Record):  # type: ignore[misc]
    number = Integer()
    city = String()


def attempt(scene: Scene, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any], str]:
    """Runs the job; returns its exit code, its outcome, and what it said on stderr."""
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--progress", "json"]
    code = main([*place, *more])
    captured = capsys.readouterr()
    lines = captured.out.strip().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, captured.err


def run(scene: Scene, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    code, said, err = attempt(scene, capsys, *more)
    assert code == 0, err
    return said


def origin(copy: Any) -> pulsar.MessageId:
    return pulsar.MessageId.deserialize(bytes.fromhex(copy.properties()["src_mid"]))


def position(message_id: pulsar.MessageId) -> str:
    return f"{message_id.ledger_id()}:{message_id.entry_id()}"


def partitioned(scene: Scene, name: str, count: int) -> str:
    scene.admin.put(f"persistent/public/default/{name}/partitions", count)
    return f"{PREFIX}/{name}"


def test_a_range_is_sent_again_once_although_the_run_is_repeated(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, target = f"{PREFIX}/replay-in", f"{PREFIX}/replay-out"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    ids = [
        producer.send(
            b"%d" % number,
            partition_key=f"k{number % 2}",
            event_timestamp=1000 + number,
            ordering_key=f"o{number}",
            properties={"colour": "red"},
        )
        for number in range(30)
    ]
    options = ["--topic", topic, "--to-topic", target, "--from", position(ids[5]), "--to", position(ids[24])]
    options += ["--filter", "string(__key) = 'k1'"]
    planned = run(scene, capsys, *options, "--dry-run")
    assert (planned["read"], planned["written"], planned["details"]["would write"]) == (20, 0, 10)
    said = run(scene, capsys, *options, "--rate", "100")
    assert (said["read"], said["skipped"], said["written"]) == (20, 10, 10)
    again = run(scene, capsys, *options)
    assert (again["written"], again["details"]["written by an earlier attempt"]) == (0, 10)
    assert again["details"]["run id"] == said["details"]["run id"] == planned["details"]["run id"]
    copies = scene.contents(target)
    assert [int(copy.data()) for copy in copies] == list(range(5, 25, 2))
    for copy in copies:
        number = int(copy.data())
        assert origin(copy) == ids[number]
        assert copy.properties()["src_topic"] == topic
        assert copy.properties()["colour"] == "red"
        assert copy.partition_key() == "k1"
        assert copy.event_timestamp() == 1000 + number
        assert copy.ordering_key() == f"o{number}"


def test_batches_of_partitions_by_time_between_partitioned_topics(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, target = partitioned(scene, "parted-in", 4), partitioned(scene, "parted-out", 3)
    producer = scene.client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=5)

    def send(numbers: range) -> None:
        for number in numbers:  # no key leads to partition 3, so it stays empty
            producer.send_async(b"%d" % number, None, partition_key="abc"[number % 3])
        producer.flush()

    send(range(40))
    used = {message.topic_name() for message in scene.contents(topic)}
    assert len(used) < 4  # a lookup of times must not wait for a message in an empty partition
    since = max(message.publish_timestamp() for message in scene.contents(topic)) + 1
    while int(scene.session.sql("select unix_millis(now())").collect()[0][0]) <= since:
        pass
    send(range(40, 80))
    before = max(message.publish_timestamp() for message in scene.contents(topic)) + 1
    said = run(scene, capsys, "--topic", topic, "--to-topic", target, "--from", str(since), "--to", str(before))
    copies = scene.contents(target)
    assert said["read"] == len(copies) == 40
    assert sorted(int(copy.data()) for copy in copies) == list(range(40, 80))
    assert len({str(origin(copy)) for copy in copies}) == 40  # the ids of a batch differ in their index
    for key in "abc":
        numbers = [int(copy.data()) for copy in copies if copy.partition_key() == key]
        assert numbers == sorted(numbers)
        assert len({copy.topic_name() for copy in copies if copy.partition_key() == key}) == 1
    code, _, err = attempt(scene, capsys, "--topic", topic, "--to-topic", target, "--from", "1:0")
    assert code == 1
    assert "has 4 partitions: give ids as JSON" in err


def test_copies_of_a_topic_to_itself_are_not_copied(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"{PREFIX}/itself"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for number in range(25):
        producer.send(b"%d" % number)
    said = run(scene, capsys, "--topic", topic, "--to-topic", topic, "--rate", "100")  # the whole range is one piece
    assert (said["read"], said["written"]) == (25, 25)
    contents = scene.contents(topic)
    assert Counter(int(message.data()) for message in contents) == dict.fromkeys(range(25), 2)
    assert [("src_mid" in message.properties()) for message in contents] == [False] * 25 + [True] * 25
    said = run(scene, capsys, "--topic", topic, "--to-topic", topic)  # the range's end has moved behind the copies
    assert (said["read"], said["written"]) == (25, 0)
    assert len(scene.contents(topic)) == 50


def test_empty_and_missing_topics(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"{PREFIX}/nothing-in-it"
    scene.client.create_producer(topic).close()
    said = run(scene, capsys, "--topic", topic, "--to-topic", "nowhere", "--from", "2026-01-01")
    assert (said["read"], said["written"], said["details"]["range"]) == (0, 0, {})
    said = run(scene, capsys, "--dlq-of", "nothing-in-it:billing")
    assert said["read"] == 0
    code, _, err = attempt(scene, capsys, "--dlq-of", "not-a-topic:billing")
    assert code == 1
    assert "not-a-topic" in err


def test_records_are_transformed_to_the_schema_and_misfits_are_parked(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, park = f"{PREFIX}/records", f"{PREFIX}/records-parked"
    producer = scene.client.create_producer(topic, schema=JsonSchema(Order), batching_enabled=False)
    for number in range(6):
        producer.send(Order(number=number, city="Ulm"), partition_key=f"k{number}")
    poison = scene.client.create_producer(topic, batching_enabled=False)
    bad = poison.send(b"\xffno json", partition_key="bad")
    options = ["--topic", topic, "--to-topic", f"{PREFIX}/records-out", "--filter", "number > 1"]
    options += ["--transform", "city=upper(city)", "--transform", "number=if(number = 3, null, number * 10)"]
    options += ["--transform", "__key=concat('x', string(__key))"]
    code, _, err = attempt(scene, capsys, *options)
    assert code == 1
    assert f"message {position(bad)} of {topic}: its value does not fit the topic's schema" in err
    assert "--park-topic" in err
    said = run(scene, capsys, *options, "--park-topic", park)
    assert (said["read"], said["skipped"], said["written"], said["parked"]) == (7, 2, 4, 1)
    reader = scene.client.create_reader(f"{PREFIX}/records-out", pulsar.MessageId.earliest, schema=JsonSchema(Order))
    found = [reader.read_next(5000) for _ in range(4)]
    assert [(each.value().number, each.value().city) for each in found] == [
        (20, "ULM"), (None, "ULM"), (40, "ULM"), (50, "ULM"),
    ]  # fmt: skip
    assert [each.partition_key() for each in found] == ["xk2", "xk3", "xk4", "xk5"]
    (parked,) = scene.contents(park)
    assert parked.data() == b"\xffno json"
    assert origin(parked) == bad
    assert "does not fit" in parked.properties()["replay_error"]
    code, _, err = attempt(scene, capsys, "--topic", topic, "--to-topic", "x", "--transform", "town=city")
    assert code == 1
    assert "no column town; there are number, city, __key" in err


def test_avro_is_copied_unchanged_with_the_schema_that_it_was_written_with(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    class Bigger(Record):  # type: ignore[misc]
        number = Integer()
        city = String()
        street = String(required_default=True)

    Bigger.__name__ = "Order"
    topic, target = f"{PREFIX}/avro-in", f"{PREFIX}/avro-out"
    scene.client.create_producer(topic, schema=AvroSchema(Order)).send(Order(number=1, city="Ulm"))
    bigger = AvroSchema(Bigger)
    scene.client.create_producer(topic, schema=bigger).send(Bigger(number=2, city="Bonn", street="Weg"))
    run(scene, capsys, "--topic", topic, "--to-topic", target)
    assert [copy.data() for copy in scene.contents(target)] == [each.data() for each in scene.contents(topic)]
    rows = scene.read(target).select("number", "city", "street").collect()
    assert [tuple(row) for row in rows] == [(1, "Ulm", None), (2, "Bonn", "Weg")]
    said = run(scene, capsys, "--topic", topic, "--to-topic", target, "--transform", "number=number+10")
    assert said["written"] == 2
    rows = scene.read(target).select("number", "city", "street").collect()
    assert [tuple(row) for row in rows][2:] == [(11, "Ulm", None), (12, "Bonn", "Weg")]
    text = f"{PREFIX}/a-text-topic"
    scene.client.create_producer(text, schema=pulsar.schema.StringSchema()).send("x")
    code, _, err = attempt(scene, capsys, "--topic", topic, "--to-topic", text)
    assert code == 1
    assert f"{text} does not take the schema of {topic}" in err


def test_a_trimmed_begin_is_named_or_passed_over(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    topic, target = f"{PREFIX}/trimmed", f"{PREFIX}/trimmed-out"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"%d" % number) for number in range(5)]
    scene.admin.put("persistent/public/default/trimmed/unload")
    ids += [producer.send(b"%d" % number) for number in range(5, 10)]
    scene.admin.post("persistent/public/default/trimmed/trim")
    assert len(scene.contents(topic)) == 5
    options = ["--topic", topic, "--to-topic", target, "--from", position(ids[2])]
    code, _, err = attempt(scene, capsys, *options)
    assert code == 1
    assert "DataLoss" in err
    said = run(scene, capsys, *options, "--fail-on-data-loss", "false")
    assert (said["read"], said["written"]) == (5, 5)
    assert [copy.data() for copy in scene.contents(target)] == [b"5", b"6", b"7", b"8", b"9"]


def reject_all(scene: Scene, topic: str, subscription: str, count: int) -> list[Any]:
    """A consumer of the official client refuses every message until it becomes a dead letter."""
    policy = pulsar.ConsumerDeadLetterPolicy(max_redeliver_count=1)
    consumer = scene.client.subscribe(
        topic,
        subscription,
        consumer_type=pulsar.ConsumerType.Shared,
        dead_letter_policy=policy,
        negative_ack_redelivery_delay_ms=20,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    dead = [f"{name}-{subscription}-DLQ" for name in scene.client.get_topic_partitions(topic)]

    def letters() -> list[Any]:
        known = {message for name in dead for message in scene.client.get_topic_partitions(name)}
        return [message for name in known for message in scene.contents(name)]

    while True:
        try:
            consumer.negative_acknowledge(consumer.receive(300))
        except pulsar.Timeout:
            if len(letters()) >= count:
                break
    consumer.close()
    return letters()


def test_dead_letters_of_the_official_client_go_back_and_are_parked_after_too_many_attempts(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, park = f"{PREFIX}/orders", f"{PREFIX}/orders-parked"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for number in range(3):
        producer.send(b"%d" % number, partition_key="k", properties={"colour": "red"})
    letters = reject_all(scene, topic, "billing", 3)
    assert {letter.properties()["REAL_TOPIC"] for letter in letters} == {topic}
    options = ["--dlq-of", f"{topic}:billing", "--max-attempts", "1", "--park-topic", park]
    said = run(scene, capsys, *options)
    assert (said["read"], said["written"], said["parked"]) == (3, 3, 0)
    copies = scene.contents(topic)[3:]
    assert sorted(copy.data() for copy in copies) == [b"0", b"1", b"2"]
    for copy in copies:
        properties = copy.properties()
        assert (properties["colour"], properties["replay_attempts"]) == ("red", "1")
        assert "ORIGIN_MESSAGE_ID" in properties
        assert not {"REAL_TOPIC", "RECONSUMETIMES"} & set(properties)
        assert copy.partition_key() == "k"
    assert run(scene, capsys, *options)["read"] == 0  # all letters are dealt with
    reject_all(scene, topic, "billing", 6)
    said = run(scene, capsys, *options)
    assert (said["read"], said["written"], said["parked"]) == (3, 0, 3)  # they were replayed before, so all are parked
    parked = scene.contents(park)
    assert sorted(message.data() for message in parked) == [b"0", b"1", b"2"]
    assert {message.properties()["replay_error"] for message in parked} == {"replayed 1 times before"}
    assert len(scene.contents(topic)) == 6


def test_dead_letters_of_partitions_go_back_to_their_partition(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = partitioned(scene, "bills", 2)
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for number in range(6):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    there = {message.data(): message.topic_name() for message in scene.contents(topic)}
    assert len(set(there.values())) == 2
    reject_all(scene, topic, "billing", 6)
    said = run(scene, capsys, "--dlq-of", "bills:billing", "--filter", "string(__key) = 'none'")
    assert (said["read"], said["skipped"]) == (6, 6)  # the letters stay for another run
    said = run(scene, capsys, "--dlq-of", "bills:billing")
    assert (said["read"], said["written"]) == (6, 6)
    copies = [message for message in scene.contents(topic) if "src_mid" in message.properties()]
    assert {copy.data(): copy.topic_name() for copy in copies} == there


def test_bad_arguments_are_named(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.client.create_producer("a").send(b"x")
    for arguments, sentence in (
        (["--topic", "a", "--to-topic", "b", "--from", "soon"], "'soon' is neither milliseconds"),
        (["--topic", "non-persistent://public/default/a", "--to-topic", "b"], "keeps no messages"),
        (["--dlq-of", "orders"], "expected TOPIC:SUBSCRIPTION"),
        (["--topic", "a", "--to-topic", "b", "--transform", "value"], "expected COLUMN=SQL"),
        (["--topic", "a", "--to-topic", "b", "--from", '{"c": "1:0"}'], "c is no partition of"),
        (["--topic", "a", "--to-topic", "b", "--filter", "who = 1"], "--filter 'who = 1': [UNRESOLVED_COLUMN"),
        (["--topic", "a", "--to-topic", "b", "--transform", "value=who"], "--transform 'value=who': [UNRESOLVED_COL"),
        (["--topic", "a", "--to-topic", "b", "--transform", "value=1 +"], "--transform 'value=1 +': [PARSE_SYNTAX"),
    ):
        code, _, err = attempt(scene, capsys, *arguments)
        assert code == 1
        assert sentence in err


def by_partition_and_key(messages: list[Any], ids: list[pulsar.MessageId]) -> dict[tuple[int, str], list[bytes]]:
    groups: dict[tuple[int, str], list[bytes]] = {}
    for message, message_id in zip(messages, ids, strict=True):
        groups.setdefault((message_id.partition(), message.partition_key()), []).append(message.data())
    return groups


@pytest.mark.long
def test_killed_with_the_server_too_a_run_ends_as_an_undisturbed_one(scene: Scene, tmp_path: Path) -> None:
    """SIGKILL to driver, JVM and workers in the middle of a run; a new partition; SIGKILL to the server in the next
    run."""
    with Server(tmp_path, settings={"brokerDeduplicationEnabled": "true"}) as server:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(tmp_path / "client.log"))
        own = Scene(scene.session, server, pulsar.Client(server.broker_url, logger=logger))
        topic, target = partitioned(own, "kill-in", 2), partitioned(own, "kill-out", 3)
        send(own, topic, range(3000))
        place = ["--service-url", server.broker_url, "--admin-url", server.web_url]
        options = [*place, "--topic", topic, "--to-topic", target, "--rate", "500"]
        with JobProcess("replay", options) as job:
            job.until_batch(0)
            assert job.for_a_while(random.Random(), 1)
            job.kill()
        copied = len(own.contents(target))
        assert 0 < copied < 3000
        own.admin.post("persistent/public/default/kill-in/partitions", 3)
        own.client.close()  # the client would notice the new partition only after a minute
        own.client = pulsar.Client(server.broker_url, logger=logger)
        send(own, topic, range(3000, 3300))
        with JobProcess("replay", options) as job:
            job.until_batch(0)
            server.kill()
            server.start()
            said = job.result()
        sources, copies = own.contents(topic), own.contents(target)
        own.client.close()
    assert (said["read"], said["problems"]) == (3300, []), said
    assert said["written"] + said["details"]["written by an earlier attempt"] == 3300
    assert said["written"] <= 3300 - copied
    ids = [message.message_id() for message in sources]
    assert len({message_id.partition() for message_id in ids}) == 3
    assert sorted(str(origin(copy)) for copy in copies) == sorted(map(str, ids))
    assert by_partition_and_key(copies, [origin(copy) for copy in copies]) == by_partition_and_key(sources, ids)


def send(scene: Scene, topic: str, numbers: range) -> None:
    producer = scene.client.create_producer(
        topic, batching_enabled=True, batching_max_messages=7, block_if_queue_full=True
    )
    for number in numbers:
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 11}")
    producer.flush()
    producer.close()
