"""Numbers that are published over one socket to all partitions of a topic, and consumed over another."""

import json
import threading
from base64 import b64decode, b64encode
from collections import defaultdict

import pulsar
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from compat_tests.harness import wait_until


def partition_of(message_id: str) -> int:
    return int(pulsar.MessageId.deserialize(b64decode(message_id)).partition())


class Producing:
    """Publishes numbers every few milliseconds to all partitions, and notes the answers."""

    def __init__(self, socket: ClientConnection, partitions: int) -> None:
        self.stored: dict[int, int] = {}
        """The partition of each number that was answered "ok"."""
        self.answers: list[int] = []
        self.faults: list[str] = []
        self._socket = socket
        self._partitions = partitions
        self._ended = threading.Event()
        self.sent = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._publish, self._hear)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        while not self._ended.wait(0.005):
            body = b64encode(str(self.sent).encode()).decode()
            self._socket.send(json.dumps({"payload": body, "context": str(self.sent)}))
            self.sent += 1

    def _hear(self) -> None:
        try:
            for text in self._socket:
                answer = json.loads(text)
                self.answers.append(int(answer["context"]))
                if answer["result"] == "ok":
                    self.stored[int(answer["context"])] = partition_of(answer["messageId"])
                else:
                    self.faults.append(str(answer))
        except ConnectionClosed as error:
            self.faults.append(str(error))

    def goes_on(self) -> None:
        """Returns when each partition has stored a message that was sent after this call began."""
        first = self.sent
        wait_until(
            lambda: len({place for number, place in list(self.stored.items()) if number >= first}) == self._partitions,
            "all partitions store messages",
        )

    def end(self) -> None:
        """Ends the publishing, and waits for the last answers."""
        self._ended.set()
        self._threads[0].join()
        wait_until(lambda: len(self.answers) == self.sent or bool(self.faults), "each message is answered")


class Consuming:
    """Acknowledges all messages, and notes the numbers of each partition in the order of their first copies."""

    def __init__(self, socket: ClientConnection) -> None:
        self.found: dict[int, dict[int, None]] = defaultdict(dict)
        self.faults: list[str] = []
        self._socket = socket
        threading.Thread(target=self._consume, daemon=True).start()

    def _consume(self) -> None:
        try:
            for text in self._socket:
                message = json.loads(text)
                self.found[partition_of(message["messageId"])][int(b64decode(message["payload"]))] = None
                self._socket.send(json.dumps({"messageId": message["messageId"]}))
        except ConnectionClosed as error:
            self.faults.append(str(error))

    def has_all(self, stored: dict[int, int]) -> bool:
        return all(number in self.found[place] for number, place in list(stored.items()))

    def has_in_order(self, stored: dict[int, int]) -> bool:
        """Returns whether each partition's numbers came in the order in which they were stored, and no others."""
        return all(
            list(self.found[index]) == [number for number, at in stored.items() if at == index]
            for index in set(stored.values())
        )
