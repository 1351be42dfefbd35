"""The load of a round: topics with subscriptions of every kind, whose clients stay for the whole round."""

import time
from collections.abc import Sequence
from functools import partial

import pulsar

from compat_tests.python.rest import Refused
from compat_tests.soak.consuming import note, partition_of, subscribe
from compat_tests.soak.producing import produce
from compat_tests.soak.stage import Stage, TopicRecord, place_of, received
from compat_tests.soak.topics import (
    BATCHES,
    CUMULATIVE,
    DEDUPLICATED,
    EXCLUSIVE,
    FAILOVER,
    KEY_BATCHES,
    KEY_SHARED,
    NAMESPACE,
    SHARED,
    SOME_REFUSED,
    SubscriptionSpec,
    TopicSpec,
)

CLIENTS_OF_EACH_KIND = 2
CONFLICT = 409


def topics_of(number: int) -> list[TopicSpec]:
    """Returns the topics of a round, under names that no other round has."""
    return [
        TopicSpec(
            f"plain-{number}",
            12,
            ({}, {}),
            (
                SubscriptionSpec("individual", EXCLUSIVE),
                SubscriptionSpec("cumulative", EXCLUSIVE, CUMULATIVE),
                SubscriptionSpec("shared", SHARED, SOME_REFUSED, consumers=2),
            ),
        ),
        TopicSpec(
            f"batched-{number}",
            30,
            (BATCHES,),
            (
                SubscriptionSpec("failover", FAILOVER, consumers=2),
                SubscriptionSpec("indexes", SHARED, SOME_REFUSED, consumers=2),
            ),
        ),
        TopicSpec(
            f"keyed-{number}",
            15,
            (KEY_BATCHES,),
            (SubscriptionSpec("key_shared", KEY_SHARED, consumers=2),),
            keys=8,
        ),
        TopicSpec(
            f"deduplicated-{number}",
            12,
            ({}, BATCHES),
            (SubscriptionSpec("exclusive", EXCLUSIVE),),
            is_deduplicated=True,
            policies=DEDUPLICATED,
        ),
        TopicSpec(
            f"partitioned-{number}",
            15,
            ({},),
            (SubscriptionSpec("failover", FAILOVER), SubscriptionSpec("shared", SHARED, consumers=2)),
            keys=6,
            partitions=2,
        ),
    ]


def prepare(stage: Stage, topics: Sequence[TopicRecord]) -> None:
    """Makes the namespace, unless an earlier round has, and the topics with their subscriptions."""
    try:
        stage.admin.put(f"namespaces/{NAMESPACE}")
    except Refused as refusal:
        if refusal.status != CONFLICT:
            raise
    stage.admin.post(f"namespaces/{NAMESPACE}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    client = stage.new_client()
    for topic in topics:
        path = topic.spec.rest_path
        if topic.spec.partitions:
            stage.admin.put(f"{path}/partitions", topic.spec.partitions)
        else:
            stage.admin.put(path)
        for name, value in topic.spec.policies.items():
            stage.admin.post(f"{path}/{name}", value)
        for spec in topic.spec.subscriptions:
            subscribe(client, topic.spec, spec).close()
    client.close()


def start(stage: Stage, topics: Sequence[TopicRecord]) -> None:
    """Starts all producers and consumers, on few connections as applications do."""
    producing = [stage.new_client() for _ in range(CLIENTS_OF_EACH_KIND)]
    consuming = [stage.new_client() for _ in range(CLIENTS_OF_EACH_KIND)]
    for number, topic in enumerate(topics):
        for slot, options in enumerate(topic.spec.producers):
            client = producing[(number + slot) % len(producing)]
            stage.run(f"producer {topic.spec.name} {slot}", produce, stage, topic, slot, options, client)
        for spec in topic.spec.subscriptions:
            for slot in range(spec.consumers):
                name = f"consumer {topic.spec.name} {spec.name} {slot}"
                stage.run(name, consume, stage, topic, spec, name, consuming[slot % len(consuming)])


def consume(stage: Stage, topic: TopicRecord, spec: SubscriptionSpec, name: str, client: pulsar.Client) -> None:
    """Receives until the load ends with one consumer, which has to survive everything, and acknowledges as the
    subscription says."""
    choices = stage.random_for(name)
    consumer = stage.insist(partial(subscribe, client, topic.spec, spec, consumer_name=name.rpartition(" ")[2]))
    if consumer is None:
        return
    while not stage.ended.is_set():
        for message in received(consumer):
            if not note(stage, topic, spec, message):
                continue
            record = topic.subscription(spec, partition_of(topic.spec, message))
            place, drawn = place_of(message.message_id()), choices.random()
            acking = spec.acking
            try:
                if drawn < acking.individually:
                    consumer.acknowledge(message)
                    record.acks.individual[place] = time.monotonic()
                elif drawn < acking.individually + acking.cumulatively:
                    consumer.acknowledge_cumulative(message)
                    record.acks.cumulative.append((time.monotonic(), place))
                elif drawn < acking.individually + acking.cumulatively + acking.negatively:
                    consumer.negative_acknowledge(message)
            except pulsar.PulsarException:  # the connection is being lost, and the client says so
                stage.counts["acknowledgements refused"] += 1
    consumer.close()


class Progress:
    """What clients had sent at one moment, and whether they have come beyond it since."""

    def __init__(self, topics: Sequence[TopicRecord]) -> None:
        self._topics = topics
        self._sent = {
            topic.spec.name: {name: record.sent for name, record in list(topic.producers.items())} for topic in topics
        }
        self._behind: dict[tuple[str, str], dict[int, int]] = {
            (topic.spec.name, spec.name): {} for topic in topics for spec in topic.spec.subscriptions
        }
        """For each subscription that got nothing new yet: how many deliveries were looked at, by partition."""

    def laggards(self) -> list[str]:
        """Returns who has not come beyond that moment: topics without a receipt for everything that was sent until then
        and for something later, and subscriptions that got nothing that was sent later."""
        found = []
        for topic in self._topics:
            sent = self._sent[topic.spec.name]
            receipts = {name: len(record.receipts) for name, record in list(topic.producers.items())}
            late = [name for name, count in sent.items() if receipts[name] < count]
            if late or sum(receipts.values()) <= sum(sent.values()):
                found.append(f"producers of {topic.spec.name}")
            for spec in topic.spec.subscriptions:
                key = topic.spec.name, spec.name
                if key in self._behind:
                    if self._got_something_new(topic, spec, self._behind[key], sent):
                        del self._behind[key]
                    else:
                        found.append(f"subscription {topic.spec.name} {spec.name}")
        return found

    @staticmethod
    def _got_something_new(
        topic: TopicRecord, spec: SubscriptionSpec, seen: dict[int, int], sent: dict[str, int]
    ) -> bool:
        for (name, partition), record in list(topic.subscriptions.items()):
            if name != spec.name:
                continue
            begin, end = seen.get(partition, 0), len(record.deliveries)
            new = (record.deliveries[at].what for at in range(begin, end))
            if any(each.sequence >= sent.get(each.producer, 0) for each in new):
                return True
            seen[partition] = end
        return False
