"""Rounds of killing `replay`: every message of a partitioned topic is copied once, in the order of its key."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pulsar

from compat_tests.python.rest import Admin
from compat_tests.spark.kill_rounds import Scene, partitions_of

MESSAGES = 6000
LATER = 50
KEYS = 13


class Rounds:
    """While it is killed, the job is slow (`--rate`). Messages that come meanwhile are behind the range's end, which
    the first look fixes, so that every run is asked for the same range."""

    while_killed: Sequence[str] = ("--rate", "600")

    def prepare(self, scene: Scene) -> None:
        self._scene = scene
        self._target = f"{scene.topic}-copies"
        for topic in (scene.topic, self._target):
            Admin(scene.server).put(partitions_of(topic), scene.chance.randint(1, 3))
        batch = scene.chance.randint(1, 20)
        self._producer = scene.client.create_producer(
            scene.topic,
            batching_enabled=batch > 1,  # the client does not take 1 for the size of a batch
            batching_max_messages=max(2, batch),
            block_if_queue_full=True,
        )
        self._send(range(MESSAGES))
        self._sent = MESSAGES
        self._asked = {str(message.message_id()): message.data() for message in scene.contents(scene.topic)}
        last = max(message.publish_timestamp() for message in scene.contents(scene.topic))
        self._before = last + 1

    def _send(self, numbers: range) -> None:
        for number in numbers:
            self._producer.send_async(b"%d" % number, None, partition_key=f"k{number % KEYS}")
        self._producer.flush()

    def arguments(self) -> list[str]:
        return ["--topic", self._scene.topic, "--to-topic", self._target, "--to", str(self._before)]

    def meanwhile(self, scene: Scene) -> None:
        self._send(range(self._sent, self._sent + LATER))
        self._sent += LATER

    def judge(self, outcome: dict[str, Any]) -> list[str]:
        copies = self._scene.contents(self._target)
        found = Counter(str(_origin(copy)) for copy in copies)
        complaints = []
        if missing := len(set(self._asked) - set(found)):
            complaints.append(f"{missing} messages were not copied")
        if outside := len(set(found) - set(self._asked)):
            complaints.append(f"{outside} copies are of messages outside the range")
        if repeated := sum(number > 1 for number in found.values()):
            complaints.append(f"{repeated} messages were copied more than once")
        if any(self._asked.get(str(_origin(copy))) != copy.data() for copy in copies):
            complaints.append("a copy differs from its message")
        for key in {copy.partition_key() for copy in copies}:
            numbers = [int(copy.data()) for copy in copies if copy.partition_key() == key]
            if numbers != sorted(numbers):
                complaints.append(f"copies of key {key} are out of order")
        if outcome["read"] != MESSAGES:
            complaints.append(f"the job read {outcome['read']} of {MESSAGES}")
        return complaints


def _origin(copy: Any) -> pulsar.MessageId:
    return pulsar.MessageId.deserialize(bytes.fromhex(copy.properties()["src_mid"]))
