"""The consumers of a soak: they come, acknowledge some messages and refuse some, go, and come back."""

import time
from functools import partial
from typing import Any

import pulsar
from pulsar.schema import BytesSchema, JsonSchema

from compat_tests.soak.claims import Delivery
from compat_tests.soak.producing import Parcel
from compat_tests.soak.stage import Stage, TopicRecord, place_of, received, stored_in
from compat_tests.soak.topics import SubscriptionSpec, TopicSpec

LIFE_SECONDS = (4.0, 20.0)
AWAY_SECONDS = (0.0, 2.0)
NEGATIVE_ACK_DELAY_MS = 500
EARLY_SECONDS_ALLOWED = 0.005


def subscribe(client: pulsar.Client, topic: TopicSpec, spec: SubscriptionSpec, **options: Any) -> pulsar.Consumer:
    """Subscribes; a new subscription begins at the topic's beginning."""
    return client.subscribe(
        topic.full_name,
        spec.name,
        spec.kind,
        schema=JsonSchema(Parcel) if topic.is_json else BytesSchema(),
        initial_position=pulsar.InitialPosition.Earliest,
        batch_index_ack_enabled=True,
        negative_ack_redelivery_delay_ms=NEGATIVE_ACK_DELAY_MS,
        **options,
    )


class ConsumerSlot:
    """A thread that runs one consumer after the other on a subscription."""

    def __init__(self, stage: Stage, topic: TopicRecord, spec: SubscriptionSpec, number: int) -> None:
        self._stage = stage
        self._topic = topic
        self._spec = spec
        self._name = f"{topic.spec.name} {spec.name} {number}"
        self._choices = stage.random_for(self._name)

    def run(self, client: pulsar.Client) -> None:
        stage = self._stage
        while stage.share_over() < self._spec.after_share and not stage.ended.is_set():
            stage.pause(0.5)
        while not stage.ended.is_set():
            name = f"c{self._choices.randrange(1000)}"
            size = self._choices.choice((10, 100, 1000))
            consumer = stage.insist(
                partial(subscribe, client, self._topic.spec, self._spec, consumer_name=name, receiver_queue_size=size)
            )
            if consumer is None:
                return
            stage.counts["consumers"] += 1
            self._consume(consumer)
            consumer.close()
            stage.quiet.pop(self._name, None)
            stage.pause(self._choices.uniform(*AWAY_SECONDS))

    def _consume(self, consumer: pulsar.Consumer) -> None:
        stage = self._stage
        ends = time.monotonic() + self._choices.uniform(*LIFE_SECONDS)
        stage.quiet[self._name] = False
        while not stage.ended.is_set() and (time.monotonic() < ends or not stage.is_up.is_set()):
            message = next(received(consumer), None)
            if message is None:
                stage.quiet[self._name] = not stage.is_up.is_set()
                continue
            self._take(consumer, message)

    def _take(self, consumer: pulsar.Consumer, message: Any) -> None:
        stage, topic, acking = self._stage, self._topic, self._spec.acking
        is_recorded = note(stage, topic, self._spec, message)
        if not stage.is_up.is_set():
            return
        if not is_recorded:
            consumer.acknowledge(message)
            return
        record = topic.subscription(self._spec, partition_of(topic.spec, message))
        chosen = self._choices.random()
        if chosen < acking.individually:
            consumer.acknowledge(message)
            record.acks.individual[place_of(message.message_id())] = time.monotonic()
        elif chosen < acking.individually + acking.cumulatively:
            consumer.acknowledge_cumulative(message)
            record.acks.cumulative.append((time.monotonic(), place_of(message.message_id())))
        elif chosen < acking.individually + acking.cumulatively + acking.negatively:
            consumer.negative_acknowledge(message)
            stage.counts["refused"] += 1
            return
        else:
            return
        stage.counts["acked"] += 1


def note(stage: Stage, topic: TopicRecord, spec: SubscriptionSpec, message: Any) -> bool:
    """Records a delivery, under the topic's lock so that the order holds over all consumers. Returns False for a
    message without a record."""
    now = time.time()
    stored = stored_in(message, topic.spec.is_json)
    if stored is None:
        return False
    if now < topic.due.get((stored.producer, stored.sequence), 0) - EARLY_SECONDS_ALLOWED:
        topic.too_early += 1
    with topic.lock:
        record = topic.subscription(spec, partition_of(topic.spec, message))
        record.deliveries.append(Delivery(time.monotonic(), stored))
    stage.counts["delivered"] += 1
    return True


def partition_of(spec: TopicSpec, message: Any) -> int:
    return int(message.message_id().partition()) if spec.partitions else -1
