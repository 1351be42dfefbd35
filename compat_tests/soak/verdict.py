"""Reads everything back with fresh clients after the load, and judges it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
from pulsar.schema import BytesSchema, JsonSchema

from compat_tests.harness import wait_until
from compat_tests.python.receipts import Place, Stored
from compat_tests.soak.claims import log_complaints, run_complaints, subscription_complaints
from compat_tests.soak.consuming import note, subscribe
from compat_tests.soak.producing import Parcel
from compat_tests.soak.stage import FLEETING_KEY, Stage, TopicRecord, place_of, received, rest_of, stored_in
from compat_tests.soak.topics import SubscriptionSpec
from compat_tests.soak.watching import Run, complaints_about_runs, last_of_keys, read_compacted

DRAIN_TIMEOUT_SECONDS = 180.0
DRAINS_AT_ONCE = 8
SILENCE_SECONDS = 1.0
"""A subscription counts as drained when nothing has come for this long."""
EXPIRED_WITHIN_SECONDS = 60.0
UNREAD = "unread"


class Judge:
    """Judges one soak. `judge` returns the complaints."""

    def __init__(self, stage: Stage, topics: list[TopicRecord]) -> None:
        self._stage = stage
        self._topics = topics
        self._client = stage.new_client()
        self._times: dict[str, list[int]] = {}
        self._drained: dict[tuple[str, str], set[Place]] = {}
        """What was drained, by topic and subscription."""
        self.logs: dict[str, list[Stored]] = {}
        """The logs by topic, all partitions together."""

    def judge(self, followed: dict[str, Run], seeks: dict[str, list[Run]]) -> list[str]:
        found: list[str] = []
        pairs = [(topic, spec) for topic in self._topics for spec in topic.spec.subscriptions]
        with ThreadPoolExecutor(DRAINS_AT_ONCE) as pool:
            drained = list(pool.map(lambda pair: self._drain(*pair), pairs))
        self._drained = {
            (topic.spec.name, spec.name): places for (topic, spec), places in zip(pairs, drained, strict=True)
        }
        for topic in self._topics:
            found += self._about(topic)
            log = self.logs[topic.spec.name]
            if (run := followed.get(topic.spec.name)) is not None:
                found += run_complaints("the reader that follows", run.places, log, 0)
            if topic.spec.name in seeks:
                found += complaints_about_runs(seeks[topic.spec.name], log, self._times[topic.spec.name])
        return found

    def _about(self, topic: TopicRecord) -> list[str]:
        spec = topic.spec
        logs = self._logs_of(topic)
        whole = [stored for log in logs.values() for stored in log]
        self.logs[spec.name] = whole
        self._stage.counts["stored"] += len(whole)
        outages = [*self._stage.kills, *topic.unloads]
        rewinds = len(outages) + self._stage.counts["kills during a start"] + self._stage.more_rewinds
        found = []
        for partition, log in logs.items():
            of_log = {each.producer for each in log}
            producers = {name: each for name, each in topic.producers.items() if len(logs) == 1 or name in of_log}
            found += log_complaints(log, producers, rewinds, deduplicated=spec.is_deduplicated)
            for subscription in spec.subscriptions:
                record = topic.subscription(subscription, partition)
                found += subscription_complaints(record, log, self._drained[spec.name, subscription.name], outages)
        present = {each.producer for each in whole}
        lost = [each.name for each in topic.producers.values() if each.receipts and each.name not in present]
        if lost:
            found.append(f"(3) {spec.name}: nothing is stored of {lost}, which had receipts")
        if topic.too_early:
            found.append(f"(11) {spec.name}: {topic.too_early} delayed messages came too early")
        if spec.is_compacted:
            found += self._about_compaction(topic)
        if spec.is_trimmed:
            self._note_trimming(topic)
        return found

    def _logs_of(self, topic: TopicRecord) -> dict[int, list[Stored]]:
        """Returns the logs by partition (-1 for a topic without partitions). A trimmed topic's log is what its one
        subscription got."""
        spec = topic.spec
        if spec.is_trimmed:
            record = topic.subscription(spec.subscriptions[0], -1)
            by_place = {each.what.place: each.what for each in record.deliveries}
            return {-1: [by_place[place] for place in sorted(by_place)]}
        if not spec.partitions:
            return {-1: self._read(topic, spec.full_name)}
        names = self._client.get_topic_partitions(spec.full_name)
        return {int(name.rpartition("-")[2]): self._read(topic, name) for name in names}

    def _read(self, topic: TopicRecord, name: str) -> list[Stored]:
        is_json = topic.spec.is_json
        schema = JsonSchema(Parcel) if is_json else BytesSchema()
        reader = self._client.create_reader(name, pulsar.MessageId.earliest, schema=schema)
        log: list[Stored] = []
        times = self._times.setdefault(topic.spec.name, [])
        try:
            for message in rest_of(reader):
                stored = stored_in(message, is_json)
                if stored is not None:
                    log.append(stored)
                    times.append(message.publish_timestamp())
        except TimeoutError as error:
            self._stage.complain(f"(3) {error}")
        reader.close()
        return log

    def _drain(self, topic: TopicRecord, spec: SubscriptionSpec) -> set[Place]:
        """Receives and acknowledges everything that the subscription still has, until its backlog is 0 and nothing
        comes."""
        consumer = subscribe(self._client, topic.spec, spec)
        drained: set[Place] = set()
        deadline, silent_since = time.monotonic() + DRAIN_TIMEOUT_SECONDS, time.monotonic()
        while time.monotonic() < deadline:
            message = next(received(consumer, 100), None)
            if message is not None:
                if note(self._stage, topic, spec, message):
                    drained.add(place_of(message.message_id()))
                consumer.acknowledge(message)
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > SILENCE_SECONDS and self._backlog(topic, spec.name) == 0:
                break
        else:
            self._stage.complain(f"(4) {topic.spec.name} {spec.name}: backlog {self._backlog(topic, spec.name)} stays")
        consumer.close()
        return drained

    def _backlog(self, topic: TopicRecord, subscription: str) -> int:
        kind = "partitioned-stats" if topic.spec.partitions else "stats"
        stats = self._stage.admin.get(f"{topic.spec.rest_path}/{kind}")
        return int(stats["subscriptions"][subscription]["msgBacklog"])

    def _about_compaction(self, topic: TopicRecord) -> list[str]:
        """Compacts the topic once more and complains unless each key is there once, with its last value."""
        path = f"{topic.spec.rest_path}/compaction"
        producer = self._client.create_producer(topic.spec.full_name, batching_enabled=False)
        for number in range(5):
            producer.send(b"", partition_key=f"{FLEETING_KEY}-{number}")
        self._settled(lambda: self._stage.admin.get(path))
        self._stage.admin.put(path)
        status = self._settled(lambda: self._stage.admin.get(path))
        found = [] if status["status"] == "SUCCESS" else [f"(12) the last compaction: {status}"]
        seen = read_compacted(self._client, topic.spec)
        right = {each.producer.partition("/")[2]: each for each in self.logs[topic.spec.name]}
        if last_of_keys(seen) != right or len(seen) != len(right):
            wrong = {key: (last_of_keys(seen).get(key), each) for key, each in right.items()}
            wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
            found.append(f"(12) compacted: {len(seen)} messages for {len(right)} keys; (seen, right): {wrong}")
        return found

    @staticmethod
    def _settled(status: Callable[[], Any]) -> Any:
        wait_until(lambda: status()["status"] != "RUNNING", "the compaction ends")
        return status()

    def _note_trimming(self, topic: TopicRecord) -> None:
        entries = int(self._stage.admin.get(f"{topic.spec.rest_path}/internalStats")["numberOfEntries"])
        stored = len(self.logs[topic.spec.name])
        self._stage.counts["trimmed away"] += stored - entries

    def complaints_about_expiry(self, topic: TopicRecord) -> list[str]:
        """Checks a topic with a time to live, and its subscription that nobody reads."""
        try:
            wait_until(lambda: self._backlog(topic, UNREAD) == 0, "messages expire", EXPIRED_WITHIN_SECONDS)
        except TimeoutError:
            return [f"(15) {topic.spec.name}: {self._backlog(topic, UNREAD)} messages outlive their time"]
        return []
