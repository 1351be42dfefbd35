"""Tells a history to a broker, and takes down what it answers and what it shows at the end."""

import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from compat_tests import wire
from compat_tests.harness import wait_until
from compat_tests.histories.steps import (
    Ack,
    Begin,
    End,
    History,
    Join,
    Leave,
    Look,
    Redeliver,
    Seek,
    Send,
    Step,
    Subscription,
    TimeOut,
)
from compat_tests.wire import Field, Message, WireClient

NEW_TXN, NEW_TXN_RESPONSE = 50, 51
ADD_PARTITION, ADD_PARTITION_RESPONSE = 52, 53
ADD_SUBSCRIPTION, ADD_SUBSCRIPTION_RESPONSE = 54, 55
END_TXN, END_TXN_RESPONSE = 56, 57
TC_CONNECT, TC_CONNECT_RESPONSE = 62, 63
REDELIVER, LAST_MESSAGE_ID_RESPONSE = 20, 30

ERROR_FIELD = {
    wire.ERROR: 2,
    wire.SEND_ERROR: 3,
    wire.ACK_RESPONSE: 4,
    NEW_TXN_RESPONSE: 4,
    ADD_PARTITION_RESPONSE: 4,
    ADD_SUBSCRIPTION_RESPONSE: 4,
    END_TXN_RESPONSE: 4,
    TC_CONNECT_RESPONSE: 2,
}
"""The field of each answer that holds a ServerError. UnknownError is 0, so that only the field's presence tells."""
ANSWERS = {*ERROR_FIELD, wire.SUCCESS, wire.PRODUCER_SUCCESS, wire.SEND_RECEIPT, LAST_MESSAGE_ID_RESPONSE}
COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
PERMITS = 1_000
SENTINEL = b"end"
PRODUCER_NAME = "author"
EMPTY_LEDGER = (1 << 64) - 1
TIMED_OUT_SECONDS = 60.0
ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The command of an answer, and its ServerError or None. Texts of errors may differ."""

    command: int
    error: int | None
    text: str = field(default="", compare=False)


CLOSED = Answer(0, None)
UNANSWERED = Answer(-1, None)
"""These stand for the end of the connection, and for an answer that does not come. Nothing follows them."""


@dataclass(slots=True)
class Replay:
    """What a broker made of a history."""

    answers: dict[int, Answer] = field(default_factory=dict)
    """By the numbers of the steps. Some commands have no answer."""
    looks: list[list[str]] = field(default_factory=list)
    """What readers got in the middle."""
    views: dict[str, list[str]] = field(default_factory=dict)
    """What is there at the end: of each topic, and of each subscription."""


class Teller:
    """Tells histories to one broker, each on topics of its own."""

    def __init__(self, port: int, web_url: str) -> None:
        self._port = port
        self._web_url = web_url
        self._count = 0

    def tell(self, history: History) -> Replay:
        self._count += 1
        with WireClient(self._port) as client:
            one = _Telling(client, self._web_url, history, f"h{history.seed}-{self._count}")
            return one.run()


class _Telling:
    def __init__(self, client: WireClient, web_url: str, history: History, prefix: str) -> None:
        self._client = client
        self._web_url = web_url
        self._history = history
        self._topics = [f"persistent://public/default/{prefix}-{number}" for number in range(history.topics)]
        self._replay = Replay()
        self._requests = 0
        self._sequence = 0
        self._txns: dict[int, tuple[int, int]] = {}
        """The ids (most, least)."""
        self._ids: dict[int, tuple[int, int]] = {}
        """Ledger and entry of what was published."""
        self._consumers: dict[Subscription, int] = {}
        self._consumer_ids = 0
        self._got: dict[int, list[tuple[Message, bytes]]] = {}

    def run(self) -> Replay:
        self._client.go_to_owner(COORDINATOR)
        self._ask(TC_CONNECT, [(2, 0)])
        for number, topic in enumerate(self._topics):
            self._client.go_to_owner(topic)
            self._request(wire.PRODUCER, [(1, topic), (2, number)], 3, [(4, PRODUCER_NAME + str(number)), (12, 1)])
        for subscription in self._history.subscriptions:
            self._enter(subscription)
        for number, step in enumerate(self._history.steps):
            try:
                answer = self._tell(step)
            except (wire.ClosedError, TimeoutError) as error:
                self._replay.answers[number] = UNANSWERED if isinstance(error, TimeoutError) else CLOSED
                return self._replay
            if answer is not None:
                self._replay.answers[number] = answer
        for number in range(len(self._topics)):
            self._publish(number, SENTINEL, 1, None)
        for subscription in self._history.subscriptions:
            self._leave(subscription)
            self._enter(subscription)
            self._replay.views[subscription.name] = self._drain(
                self._consumers[subscription], lambda texts, place: SENTINEL.decode() in texts
            )
        for number in range(len(self._topics)):
            self._replay.views[f"topic {number}"] = self._read(number)
        return self._replay

    def _tell(self, step: Step) -> Answer | None:
        match step:
            case Begin():
                return self._begin(step)
            case Join():
                return self._join(step)
            case Send():
                return self._send(step)
            case Ack():
                return self._ack(step)
            case End():
                return self._on_txn(END_TXN, step.txn, [(4, 0 if step.commit else 1)])
            case TimeOut():
                wait_until(lambda: self._is_over(step.txn), "the transaction has timed out", TIMED_OUT_SECONDS)
            case Seek():
                return self._seek(step)
            case Redeliver():
                ids: list[Field] = [(2, self._id(each)) for each in step.entries]
                self._client.send(REDELIVER, [(1, self._consumers[step.subscription]), *ids])
            case Leave():
                if step.unsubscribes:
                    answer = self._request(wire.UNSUBSCRIBE, [(1, self._consumers[step.subscription])], 2)
                    self._enter(step.subscription)
                    return answer
                self._leave(step.subscription)
                self._enter(step.subscription)
            case Look():
                self._replay.looks.append(self._read(step.topic))
        return None

    # --- steps -------------------------------------------------------------------------------------------------------

    def _begin(self, step: Begin) -> Answer:
        answer, message = self._ask(NEW_TXN, [(2, step.ttl_ms), (3, 0)])
        self._txns[step.txn] = wire.number(message, 3), wire.number(message, 2)
        return answer

    def _on_txn(self, command: int, txn: int, fields: list[Field]) -> Answer:
        most, least = self._txns[txn]
        return self._ask(command, [(2, least), (3, most), *fields])[0]

    def _join(self, step: Join) -> Answer:
        topic = self._topics[step.topic]
        if step.subscription is None:
            return self._on_txn(ADD_PARTITION, step.txn, [(4, topic)])
        return self._on_txn(ADD_SUBSCRIPTION, step.txn, [(4, [(1, topic), (2, step.subscription.name)])])

    def _send(self, step: Send) -> Answer:
        answer, message = self._publish(step.topic, f"m{step.entry}".encode(), step.batch, step.txn)
        found = wire.decode(wire.blob(message, 3))
        self._ids[step.entry] = wire.number(found, 1), wire.number(found, 2)
        return answer

    def _publish(self, topic: int, text: bytes, batch: int, txn: int | None) -> tuple[Answer, Message]:
        self._sequence += 1
        ids: list[Field] = [] if txn is None else [(4, self._txns[txn][1]), (5, self._txns[txn][0])]
        metadata: list[Field] = [] if txn is None else [(22, self._txns[txn][1]), (23, self._txns[txn][0])]
        body = text
        if batch > 1:
            metadata = [(11, batch), *metadata]
            body = b"".join(_single(text + f".{index}".encode()) for index in range(batch))
        encoded = wire.message_metadata(f"{PRODUCER_NAME}{topic}", self._sequence, metadata)
        self._client.send(wire.SEND, [(1, topic), (2, self._sequence), (3, batch), *ids], wire.payload(encoded, body))
        return self._answer()

    def _ack(self, step: Ack) -> Answer:
        ids: list[Field] = []
        for entry in step.entries:
            fields = self._id(entry)
            if step.indexes:
                left = sum(1 << index for index in range(step.batch) if index not in step.indexes)
                fields = [*fields, (5, left), (6, step.batch)]
            ids.append((3, fields))
        fields = [(1, self._consumers[step.subscription]), (2, int(step.cumulative)), *ids]
        if step.txn is not None:
            fields += [(6, self._txns[step.txn][1]), (7, self._txns[step.txn][0])]
        return self._request(wire.ACK, fields, 8)

    def _seek(self, step: Seek) -> Answer:
        place: list[Field] = [(1, EMPTY_LEDGER), (2, EMPTY_LEDGER)] if step.entry is None else self._id(step.entry)
        answer = self._request(wire.SEEK, [(1, self._consumers[step.subscription])], 2, [(3, place)])
        self._leave(step.subscription)  # Brokers may have closed it for the move.
        self._enter(step.subscription)
        return answer

    def _is_over(self, txn: int) -> bool:
        most, least = self._txns[txn]
        url = f"{self._web_url}/admin/v3/transactions/transactionMetadata/{most}/{least}"
        try:
            with urllib.request.urlopen(url, timeout=30):
                return False
        except urllib.error.HTTPError as error:
            return error.code == 404

    def _id(self, entry: int) -> list[Field]:
        ledger_id, entry_id = self._ids[entry]
        return [(1, ledger_id), (2, entry_id)]

    # --- consumers ---------------------------------------------------------------------------------------------------

    def _enter(self, subscription: Subscription) -> None:
        fields: list[Field] = [(2, subscription.name), (3, subscription.type.value), (13, 1)]
        self._consumers[subscription] = self._subscribe(subscription.topic, fields)

    def _subscribe(self, topic: int, fields: list[Field]) -> int:
        """Makes a consumer that may be given all there is, and returns its id."""
        self._consumer_ids += 1
        made = self._consumer_ids
        self._got[made] = []
        answer = self._request(wire.SUBSCRIBE, [(1, self._topics[topic]), (4, made)], 5, fields)
        assert answer.error is None, f"subscribing: {answer}"
        self._client.send(wire.FLOW, [(1, made), (2, PERMITS)])
        return made

    def _leave(self, subscription: Subscription) -> None:
        self._request(wire.CLOSE_CONSUMER, [(1, self._consumers[subscription])], 2)

    def _read(self, topic: int) -> list[str]:
        """Returns the messages of a topic up to the one that is the last for readers."""
        start: list[Field] = [(1, EMPTY_LEDGER), (2, EMPTY_LEDGER)]
        consumer = self._subscribe(topic, [(2, f"reader-{self._consumer_ids}"), (3, 0), (8, 0), (9, start)])
        _, message = self._ask(wire.GET_LAST_MESSAGE_ID, [(1, consumer)], request_field=2)
        last = wire.decode(wire.blob(message, 1))
        end = wire.number(last, 1), wire.number(last, 2)
        found = [] if end[1] == EMPTY_LEDGER else self._drain(consumer, lambda texts, place: place >= end)
        self._request(wire.CLOSE_CONSUMER, [(1, consumer)], 2)
        return found

    def _drain(self, consumer: int, is_last: Callable[[list[str], tuple[int, int]], bool]) -> list[str]:
        """Returns what a new consumer gets up to the last entry, of which `is_last` is told the texts and the place."""
        got = self._got[consumer]
        found: list[str] = []
        taken = 0
        while True:
            while taken == len(got):
                self._take(self._client.receive())
            message, data = got[taken]
            taken += 1
            texts = _texts(data, message.get(4, []))
            found += texts
            place = wire.decode(wire.blob(message, 2))
            if is_last(texts, (wire.number(place, 1), wire.number(place, 2))):
                return found

    # --- requests ----------------------------------------------------------------------------------------------------

    def _request(self, command: int, fields: list[Field], request_field: int, more: Iterable[Field] = ()) -> Answer:
        return self._ask(command, [*fields, *more], request_field=request_field)[0]

    def _ask(self, command: int, fields: list[Field], *, request_field: int = 1) -> tuple[Answer, Message]:
        self._requests += 1
        self._client.send(command, sorted([(request_field, self._requests), *fields], key=lambda each: each[0]))
        return self._answer()

    def _answer(self) -> tuple[Answer, Message]:
        """Waits for the next answer, and keeps the messages that come before it."""
        while True:
            kind, message, data = self._client.receive(ANSWER_SECONDS)
            if kind in ANSWERS:
                at = ERROR_FIELD.get(kind, -1)
                if at not in message:
                    return Answer(kind, None), message
                return Answer(kind, wire.number(message, at), wire.text(message, at + 1)), message
            self._take((kind, message, data))

    def _take(self, received: tuple[int, Message, bytes]) -> None:
        kind, message, data = received
        if kind == wire.MESSAGE:
            self._got[wire.number(message, 1)].append((message, data))


def _single(text: bytes) -> bytes:
    """Returns one message of a batch."""
    metadata = wire.encode([(3, len(text))])
    return struct.pack(">I", len(metadata)) + metadata + text


def _texts(data: bytes, ack_set: list[int | bytes]) -> list[str]:
    """Returns the texts of an entry, without those messages of a batch that the ack set says to be acknowledged."""
    at = data.index(wire.CHECKSUM_MAGIC) + 6
    (size,) = struct.unpack_from(">I", data, at)
    metadata = wire.decode(data[at + 4 : at + 4 + size])
    at += 4 + size
    count = wire.number(metadata, 11, 1)
    if 11 not in metadata:
        return [data[at:].decode()]
    found = []
    for index in range(count):
        (size,) = struct.unpack_from(">I", data, at)
        single = wire.decode(data[at + 4 : at + 4 + size])
        at += 4 + size
        text = data[at : at + wire.number(single, 3)].decode()
        at += wire.number(single, 3)
        words = [int(word) for word in ack_set if isinstance(word, int)]
        if not words or words[index // 64] >> (index % 64) & 1:
            found.append(text)
    return found
