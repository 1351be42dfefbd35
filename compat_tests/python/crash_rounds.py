"""One server is killed with SIGKILL again and again under load; after each kill the ledger of receipts is checked.

In a round, several producers (batched and unbatched, with and without compression) write two topics while consumers
acknowledge some of it. SIGKILL comes at a random moment, sometimes once more during the start. Then the server is
started and everything is read back. In every second round the producers survive the crash and continue to send.
"""

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar

from compat_tests.harness import Server, wait_until
from compat_tests.python.receipts import (
    AckRecord,
    Place,
    ProducerRecord,
    Stored,
    complaints_about_log,
    complaints_about_subscription,
    complaints_about_unanswered,
    parse,
)

SETTINGS = {"acknowledgmentAtBatchIndexLevelEnabled": "true"}
ACKS_PERSISTED_WITHIN_SECONDS = 3.0
"""While acknowledgements keep coming, they are flushed once a second. The rest allows for the client's grouping and
queues on a machine under load."""

LOAD_SECONDS = (0.3, 4.5)
"""How long the load runs after each producer has its first receipt."""
KILL_DURING_START_ODDS = 0.3
STEP_TIMEOUT_SECONDS = 60.0
RECEIVE_TIMEOUT_MS = 60_000
PENDING_MAX = 300
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lz4": {"compression_type": pulsar.CompressionType.LZ4},
    "batched": {"batching_enabled": True, "batching_max_publish_delay_ms": 2},
    "zstd": {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZSTD},
}
TOPIC_OF = {"plain": "single", "lz4": "single", "batched": "batch", "zstd": "batch"}
SENTINEL = b"sentinel"


class RoundFailedError(AssertionError):
    """A promise was broken. The text says which one, and the seed that repeats the choices."""


@dataclass(slots=True)
class RoundResult:
    """What a round did: the numbers of messages, receipts and acknowledgements, and how long the start after the kill
    took."""

    stored: int
    receipted: int
    acknowledged: int
    start_seconds: float


@dataclass(slots=True)
class Load:
    """The clients of one round and what they were told."""

    producers: dict[str, ProducerRecord] = field(default_factory=dict)
    acks: dict[str, AckRecord] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def run(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def join(self) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join(STEP_TIMEOUT_SECONDS)
            assert not thread.is_alive(), "a client thread hangs"


class CrashRounds:
    """Runs rounds on one data folder. `seed` fixes every choice but the scheduling of threads."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self.server = Server(folder, settings=SETTINGS)
        self._round = 0
        self._logs: dict[str, list[Stored]] = {}

    def run_round(self) -> RoundResult:
        """Runs one round. Raises RoundFailedError."""
        self._round += 1
        if not self.server.is_running:
            self.server.start()
        survive = self._round % 2 == 0
        load = Load()
        with contextlib.ExitStack() as clients:
            writing = clients.enter_context(new_client(self.server))
            with new_client(self.server) as reading:
                handles = self._start_load(load, writing, reading)
                wait_until(
                    lambda: all(each.receipts for each in load.producers.values()), "a receipt for each producer"
                )
                time.sleep(self._random.uniform(*LOAD_SECONDS))
                killed_at = time.monotonic()
                self.server.kill()
                load.ended.set()
                wait_until(lambda: not any(each.is_connected() for each in handles), "the clients notice")
            for record in load.producers.values():
                record.receipted_before_crash = len(record.receipts)
            if not survive:
                clients.close()
            start_seconds = self._start_again()
            load.join()
            if survive:
                for handle in handles:
                    handle.flush()
        complaints = self._verify(load, survive, killed_at)
        if survive:
            complaints += complaints_about_unanswered(load.producers.values())
        if complaints:
            raise RoundFailedError(f"seed {self._seed}, round {self._round}:\n" + "\n".join(complaints))
        return RoundResult(
            stored=sum(len(self._logs[topic]) for topic in self._topics()),
            receipted=sum(len(record.receipts) for record in load.producers.values()),
            acknowledged=sum(len(acks.individual) + len(acks.cumulative) for acks in load.acks.values()),
            start_seconds=start_seconds,
        )

    def _start_again(self) -> float:
        if self._random.random() < KILL_DURING_START_ODDS:
            self.server.spawn()
            time.sleep(self._random.uniform(0.05, 0.5))
            self.server.kill()
        return self.server.start()

    def _topics(self) -> list[str]:
        return [self._topic(kind) for kind in ("single", "batch")]

    def _topic(self, kind: str) -> str:
        return f"persistent://public/default/round-{self._round}-{kind}"

    def _start_load(self, load: Load, writing: pulsar.Client, reading: pulsar.Client) -> list[pulsar.Producer]:
        for topic in self._topics():
            reading.subscribe(topic, "keeps").close()
        for name, subscription, kind in self._subscriptions():
            consumer = reading.subscribe(
                name, subscription, kind, batch_index_ack_enabled=True, receiver_queue_size=500
            )
            record = load.acks[f"{name} {subscription}"] = AckRecord()
            seed = self._random.random()
            target = acknowledge_some if kind == pulsar.ConsumerType.Shared else acknowledge_cumulatively
            load.run(target, consumer, record, load.ended, random.Random(seed))
        handles = []
        for kind, options in OPTIONS.items():
            record_of = load.producers[kind] = ProducerRecord(kind)
            handle = writing.create_producer(
                self._topic(TOPIC_OF[kind]),
                send_timeout_millis=0,
                max_pending_messages=PENDING_MAX,
                block_if_queue_full=True,
                **options,
            )
            handles.append(handle)
            load.run(send_until_ended, handle, record_of, load.ended)
        return handles

    def _subscriptions(self) -> Iterator[tuple[str, str, pulsar.ConsumerType]]:
        for topic in self._topics():
            yield topic, "shared", pulsar.ConsumerType.Shared
        yield self._topic("batch"), "exclusive", pulsar.ConsumerType.Exclusive

    def _verify(self, load: Load, survive: bool, killed_at: float) -> list[str]:
        complaints: list[str] = []
        with new_client(self.server) as client:
            for kind in ("single", "batch"):
                topic = self._topic(kind)
                client.create_producer(topic).send(SENTINEL)
                log = self._logs[topic] = read_to_sentinel(client.create_reader(topic, pulsar.MessageId.earliest))
                records = {name: record for name, record in load.producers.items() if TOPIC_OF[name] == kind}
                complaints += complaints_about_log(log, records, crashes=int(survive))
            for topic, subscription, kind in self._subscriptions():
                consumer = client.subscribe(topic, subscription, kind, batch_index_ack_enabled=True)
                delivered = {stored.place for stored in read_to_sentinel(consumer)}
                complaints += complaints_about_subscription(
                    f"{topic} {subscription}",
                    delivered,
                    self._logs[topic],
                    load.acks[f"{topic} {subscription}"],
                    self._acks_persisted_until(killed_at),
                )
        return complaints

    def _acks_persisted_until(self, killed_at: float) -> float:
        """Returns the time up to which acknowledgements must be stored. The peer flushes them only every minute, so
        none of its counts."""
        return float("-inf") if self.server.product.is_peer else killed_at - ACKS_PERSISTED_WITHIN_SECONDS

    def verify_all_again(self) -> int:
        """Restarts the server cleanly after the last round and checks every topic of every round again. Returns the
        number of messages."""
        self.server.restart()
        with new_client(self.server) as client:
            for topic, log in self._logs.items():
                again = read_to_sentinel(client.create_reader(topic, pulsar.MessageId.earliest))
                if again != log:
                    raise RoundFailedError(f"seed {self._seed}: {topic} changed: {len(log)} then {len(again)} messages")
        return sum(map(len, self._logs.values()))


@contextlib.contextmanager
def new_client(server: Server) -> Iterator[pulsar.Client]:
    """Yields a client that is closed at the end, whether or not its server is alive."""
    client = pulsar.Client(
        server.broker_url,
        operation_timeout_seconds=30,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, str(server.log_path.with_name("client.log"))),
    )
    try:
        yield client
    finally:
        with contextlib.suppress(pulsar.PulsarException):
            client.close()


def send_until_ended(producer: pulsar.Producer, record: ProducerRecord, ended: threading.Event) -> None:
    def receipt(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            record.receipts.append(place_of(message_id))

    with contextlib.suppress(pulsar.PulsarException):
        for sequence in itertools.count():
            if ended.is_set():
                return
            record.sent += 1
            producer.send_async(record.body(sequence), receipt)


def acknowledge_some(
    consumer: pulsar.Consumer, record: AckRecord, ended: threading.Event, choices: random.Random
) -> None:
    for message in messages_until_ended(consumer, ended):
        if choices.random() < 0.6:
            consumer.acknowledge(message)
            record.individual[place_of(message.message_id())] = time.monotonic()


def acknowledge_cumulatively(
    consumer: pulsar.Consumer, record: AckRecord, ended: threading.Event, choices: random.Random
) -> None:
    for message in messages_until_ended(consumer, ended):
        if choices.random() < 0.02:
            consumer.acknowledge_cumulative(message)
            record.cumulative.append((time.monotonic(), place_of(message.message_id())))


def messages_until_ended(consumer: pulsar.Consumer, ended: threading.Event) -> Iterator[pulsar.Message]:
    while not ended.is_set():
        try:
            yield consumer.receive(100)
        except pulsar.Timeout:
            continue
        except pulsar.PulsarException:
            return


def read_to_sentinel(source: Any) -> list[Stored]:
    """Returns everything that a reader or consumer gets before the sentinel. Raises RoundFailedError."""
    take = source.read_next if hasattr(source, "read_next") else source.receive
    log: list[Stored] = []
    while True:
        try:
            message = take(RECEIVE_TIMEOUT_MS)
        except pulsar.Timeout:
            raise RoundFailedError(f"{source.topic()}: nothing came any more after {len(log)} messages") from None
        body = message.data()
        if body == SENTINEL:
            source.close()
            return log
        try:
            log.append(parse(body, place_of(message.message_id())))
        except ValueError as error:
            raise RoundFailedError(str(error)) from None


def place_of(message_id: Any) -> Place:
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
