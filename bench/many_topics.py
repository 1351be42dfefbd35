"""The raw driver of many topics: one producer on each, over few connections, which send round robin; on demand a Shared
subscription with one consumer on each, which reads the tail and acknowledges every message.

It runs as a process of its own (`python -m bench.many_topics MODE …`) with one thread, and prints one JSON object. The
receipts of each producer must come in the order of its sends, and each topic's messages unchanged and in order;
anything else is an error.
"""

import argparse
import json
import selectors
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import accumulate, zip_longest

from bench.driver import STALL_SECONDS, BlockSender, Connection, Outcome, Stopwatch, take_descriptors
from bench.frames import (
    FIRST_SEQUENCE,
    MESSAGE_TYPE,
    PRODUCER_NAME,
    PUBLISH_TIME_MS,
    RECEIPT_TYPE,
    DriverError,
    Scanner,
    message_place,
)
from compat_tests import wire

FRAMES_OF_BLOCK = 4000
"""About how many frames are prepared for a connection, and sent again and again."""
PERMITS = 1000
ACK_SECONDS = 0.1
"""How long a consumer collects acknowledgements, as the official clients do."""
OPEN_AT_ONCE = 100
SHARED, LATEST = 1, 0


class Lane(Scanner):
    """The producers of one connection, which send in turn, and the receipts that they await. The number of a topic in
    its lane is the id of its producer minus 1."""

    def __init__(self, port: int, topics: list[str], size: int) -> None:
        self.connection = Connection(port)
        super().__init__(self._answer)
        self.topics = topics
        rounds = max(2, FRAMES_OF_BLOCK // len(topics))
        body = bytes(range(33, 127)) * (size // 94 + 1)
        self.payloads: list[bytes] = []
        frames: list[bytes] = []
        for index in range(rounds):
            sequence = FIRST_SEQUENCE + index
            metadata: list[wire.Field] = [(1, PRODUCER_NAME), (2, sequence), (3, PUBLISH_TIME_MS)]
            self.payloads.append(wire.payload(metadata, body[index % 94 :][:size]))
            frames += [
                wire.frame(wire.SEND, [(1, producer), (2, sequence)], self.payloads[index])
                for producer in range(1, len(topics) + 1)
            ]
        offsets = list(accumulate(map(len, frames), initial=0))
        self._sender = BlockSender(self.connection, b"".join(frames), offsets)
        self._expected = [wire.encode([(2, FIRST_SEQUENCE + index)]) for index in range(rounds)]
        self.count = 0
        self._counts = [0] * len(topics)

    def send(self, upto: int) -> None:
        """Sends on, until `upto` frames are sent or the socket takes no more."""
        while self._sender.sent < upto and self._sender.send(upto):
            continue

    def _answer(self, kind: int, message: wire.Message) -> None:
        self.connection.answer(kind, message, self._sender.put_between)

    def receive(self) -> None:
        """Takes the receipts that have arrived. Raises DriverError for one out of order."""
        read = self.connection.read()
        data = self._rest + read if self._rest else read
        at, end = 0, len(data)
        counts, expected, rounds = self._counts, self._expected, len(self._expected)
        while end - at >= 12:
            following = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if following > end:
                break
            if data[at + 8 : at + 10] == RECEIPT_TYPE:
                producer, place = wire.decode_varint(data, at + 13)
                count = counts[producer - 1]
                if data[place : place + 4] != expected[count % rounds]:
                    raise DriverError(f"receipt {count} of producer {producer} is out of order")
                counts[producer - 1] = count + 1
                self.count += 1
            else:
                self._handle_other(data, at)
            at = following
        self._rest = data[at:]


class TailReaders(Scanner):
    """The consumers of a lane's topics, on a connection of their own."""

    def __init__(self, port: int, lane: Lane) -> None:
        self.connection = Connection(port)
        super().__init__(self.connection.answer)
        self._payloads = lane.payloads
        self._counts = [0] * len(lane.topics)
        self._lasts = [(-1, -1)] * len(lane.topics)
        self._unacknowledged: dict[int, list[wire.Field]] = {}
        self.count = 0

    def receive(self) -> None:
        """Takes the messages that have arrived. Raises DriverError for one out of order or changed."""
        self._scan(self.connection.read(), MESSAGE_TYPE, self._message)

    def _message(self, data: bytes, at: int, following: int) -> None:
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        consumer, _ = wire.decode_varint(data, wire.decode_varint(data, at + 11)[1] + 1)
        place = message_place(data, at + 8)
        number = consumer - 1
        if place <= self._lasts[number]:
            raise DriverError(f"consumer {consumer}: entry {place} came after {self._lasts[number]}")
        count = self._counts[number]
        if data[at + 8 + size : following] != self._payloads[count % len(self._payloads)]:
            raise DriverError(f"consumer {consumer}: entry {place} is not what was sent")
        self._lasts[number], self._counts[number] = place, count + 1
        self.count += 1
        self._unacknowledged.setdefault(consumer, []).append((3, [(1, place[0]), (2, place[1])]))
        if (count + 1) % (PERMITS // 2) == 0:
            self.connection.send(wire.frame(wire.FLOW, [(1, consumer), (2, PERMITS // 2)]))

    def acknowledge(self) -> None:
        """Sends the acknowledgements that were collected, one command for each consumer."""
        frames = [wire.frame(wire.ACK, [(1, consumer), (2, 0), *ids]) for consumer, ids in self._unacknowledged.items()]
        self._unacknowledged.clear()
        if frames:
            self.connection.send(b"".join(frames))


def open_all(
    client: wire.WireClient,
    topics: list[str],
    kind: int,
    answer: int,
    fields_of: Callable[[int, str], list[wire.Field]],
) -> Iterator[None]:
    """Sends a command of this kind for each topic, some at once, and waits for the answers. Yields after each part, so
    that the other connections can have their turns, in which they answer PINGs."""
    for first in range(0, len(topics), OPEN_AT_ONCE):
        part = topics[first : first + OPEN_AT_ONCE]
        for number, topic in enumerate(part, first + 1):
            client.send(kind, fields_of(number, topic))
        for _ in part:
            client.expect(answer)
        yield


def open_producers(lane: Lane) -> Iterator[None]:
    client = lane.connection.client
    yield from open_all(client, lane.topics, wire.LOOKUP, wire.LOOKUP_RESPONSE, lookup_of)
    yield from open_all(client, lane.topics, wire.PRODUCER, wire.PRODUCER_SUCCESS, producer_of)


def open_consumers(lane: Lane, reader: TailReaders) -> Iterator[None]:
    client = reader.connection.client
    yield from open_all(client, lane.topics, wire.SUBSCRIBE, wire.SUCCESS, consumer_of)
    for number in range(1, len(lane.topics) + 1):
        client.send(wire.FLOW, [(1, number), (2, PERMITS)])


def in_turns(works: Iterable[Iterator[None]]) -> None:
    """Does the parts of all works in turns."""
    for _ in zip_longest(*works):
        continue


def lookup_of(number: int, topic: str) -> list[wire.Field]:
    return [(1, topic), (2, number), (3, 0)]


def producer_of(number: int, topic: str) -> list[wire.Field]:
    return [(1, topic), (2, number), (3, number)]


def consumer_of(number: int, topic: str) -> list[wire.Field]:
    return [(1, topic), (2, "bench"), (3, SHARED), (4, number), (5, number), (13, LATEST)]


def drive(lanes: list[Lane], readers: list[TailReaders], messages: int, window: int, server_pid: int) -> Outcome:
    """Sends `messages` over all lanes, as fast as `window` unanswered ones of each lane allow. Ends with the last
    receipt and the last delivery."""
    per_lane = messages // len(lanes)
    total = per_lane * len(lanes)
    selector = selectors.DefaultSelector()
    ends: list[Lane | TailReaders] = [*lanes, *readers]
    for each in ends:
        each.connection.go()
        selector.register(each.connection.socket, selectors.EVENT_READ, each.receive)
    watch = Stopwatch(server_pid)
    heard = time.monotonic()
    next_ack = heard + ACK_SECONDS
    while sum(lane.count for lane in lanes) < total or (readers and sum(each.count for each in readers) < total):
        for lane in lanes:
            lane.send(min(per_lane, lane.count + window))
        ready = selector.select(ACK_SECONDS if readers else STALL_SECONDS)
        for key, _ in ready:
            key.data()
        now = time.monotonic()
        if ready:
            heard = now
        elif now - heard >= STALL_SECONDS:
            raise DriverError(f"nothing happened for {STALL_SECONDS} s")
        if now >= next_ack:
            for reader in readers:
                reader.acknowledge()
            next_ack = now + ACK_SECONDS
    for reader in readers:
        reader.acknowledge()
    return watch.outcome(total)


def run(arguments: argparse.Namespace) -> Outcome:
    names = [f"{arguments.topic}-{number}" for number in range(arguments.topics)]
    parts = [names[index :: arguments.connections] for index in range(arguments.connections)]
    lanes = [Lane(arguments.port, part, arguments.size) for part in parts]
    readers = [TailReaders(arguments.port, lane) for lane in lanes] if arguments.mode == "tail" else []
    in_turns(map(open_producers, lanes))
    in_turns(map(open_consumers, lanes, readers))
    window = max(1, arguments.window // len(lanes))
    return drive(lanes, readers, arguments.messages, window, arguments.server_pid)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many_topics", description=__doc__)
    parser.add_argument("mode", choices=["publish", "tail"], help="tail: each topic has a Shared consumer, too")
    parser.add_argument("--port", type=int, required=True, help="the broker's port on 127.0.0.1")
    parser.add_argument("--server-pid", type=int, required=True, help="whose CPU time is counted")
    parser.add_argument("--topic", required=True, help="the beginning of the topics' names")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=4, help="how many connections share the producers")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--size", type=int, default=100, help="bytes of a message")
    parser.add_argument("--window", type=int, default=2000, help="frames without a receipt, over all connections")
    take_descriptors()
    try:
        outcome = run(parser.parse_args())
    except (DriverError, wire.ClosedError, OSError) as error:
        print(f"driver: {type(error).__name__} {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(outcome)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
