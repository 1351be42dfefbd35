"""A publisher that keeps the numbers of its messages with a receipt, and the check that a topic has all of them."""

import threading

import pulsar

TIMEOUT_MS = 30_000


class Publisher:
    """Publishes one message after the other on a thread, and keeps the numbers of those with a receipt."""

    def __init__(self, client: pulsar.Client, topic: str, first: int = 0) -> None:
        self._first = first
        self.receipts: list[int] = []
        self.faults: list[object] = []
        self._producer = client.create_producer(topic, send_timeout_millis=60_000)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _publish(self) -> None:
        number = self._first
        while not self._ended.wait(0.005):
            try:
                self._producer.send(str(number).encode())
            except Exception as error:
                self.faults.append(error)
                return
            self.receipts.append(number)
            number += 1


def read_all(client: pulsar.Client, topic: str, publishers: list[Publisher]) -> None:
    """Reads the topic and checks that it has each publisher's messages with a receipt, in order. A message whose
    receipt got lost may be there twice."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    numbers: dict[int, None] = {}
    while not all(publisher.receipts[-1] in numbers for publisher in publishers):
        numbers[int(reader.read_next(TIMEOUT_MS).data())] = None
    for publisher in publishers:
        wanted = set(publisher.receipts)
        assert [number for number in numbers if number in wanted] == publisher.receipts
