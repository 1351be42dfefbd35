"""One process of a bench: its producers and consumers, each with a connection and a thread of its own.

The process and its parent talk by a pipe. The parent hears ("ready", None) once every client is connected, then
("count", (messages received, messages sent)) a few times a second, and ("done", results) at the end; ("failed", text)
when a client could not be made. It says "go", and "stop", after which consumers end.
"""

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.messages.bench_rules import HEADER, MARK_BYTES, ClientResult, ClientTask, Plan, Role
from magnetar.server.tools.messages.consuming import TYPES
from magnetar.server.tools.messages.message_client import (
    close_quietly,
    import_client,
    open_client,
    result_sentence,
    sentence,
)
from magnetar.server.tools.messages.producing import COMPRESSIONS
from magnetar.server.tools.messages.tool_errors import ToolError

TELL_SECONDS = 0.1
RECEIVE_MS = 100
LAST_RECEIPTS_SECONDS = 35.0
"""How long a producer waits for its last receipts: the client's send timeout is 30 seconds."""


def work(pipe: Connection, settings: ConnectionSettings, plan: Plan, mark: bytes, tasks: list[ClientTask]) -> None:
    """The body of the process. It ends when the bench is over, or when its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent hears Ctrl-C and says "stop".
    stop = threading.Event()
    try:
        clients = [_make_client(settings, plan, mark, task, stop) for task in tasks]
    except ToolError as error:
        pipe.send(("failed", str(error)))
        return
    pipe.send(("ready", None))
    try:
        if pipe.recv() != "go":
            return
        threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if pipe.poll(TELL_SECONDS) and pipe.recv() == "stop":
                stop.set()
            pipe.send(("count", (_sum(clients, Role.CONSUMER), _sum(clients, Role.PRODUCER))))
        pipe.send(("done", [client.result for client in clients]))
        for client in clients:
            client.close()
    except (EOFError, OSError):
        os._exit(1)


def _sum(clients: "list[_BenchClient]", role: Role) -> int:
    return sum(client.result.messages for client in clients if client.result.role is role)


def _make_client(
    settings: ConnectionSettings, plan: Plan, mark: bytes, task: ClientTask, stop: threading.Event
) -> "_BenchClient":
    kind = _BenchProducer if task.role is Role.PRODUCER else _BenchConsumer
    return kind(settings, plan, mark, task, stop)


class _BenchClient(ABC):
    """One producer or consumer."""

    def __init__(
        self, settings: ConnectionSettings, plan: Plan, mark: bytes, task: ClientTask, stop: threading.Event
    ) -> None:
        """Connects. Raises ToolError."""
        pulsar = import_client()
        self.plan = plan
        self.mark = mark
        self.task = task
        self.stop = stop
        self.url = settings.broker_service_url
        self.result = ClientResult(task.role, task.number)
        self._client = open_client(settings)
        try:
            self.attach(self._client)
        except pulsar.PulsarException as error:
            raise ToolError(f"{plan.topic}: {sentence(error, self.url)}") from None

    @abstractmethod
    def attach(self, client: Any) -> None:
        """Makes the producer or consumer. Raises PulsarException."""

    def run(self) -> None:
        """Does the client's work; a fault of it is kept in the result."""
        pulsar = import_client()
        self.result.began_s = self.result.ended_s = time.monotonic()
        try:
            self.work()
        except pulsar.PulsarException as error:
            self.result.fault = sentence(error, self.url)

    @abstractmethod
    def work(self) -> None:
        """Publishes or receives until the plan is fulfilled or `stop` is set. Raises PulsarException."""

    def close(self) -> None:
        close_quietly(self._client)


class _BenchProducer(_BenchClient):
    def attach(self, client: Any) -> None:
        pulsar = import_client()
        self._room = threading.Semaphore(self.plan.pending)
        self._ok = pulsar.Result.Ok
        self._producer = client.create_producer(
            self.plan.topic,
            compression_type=getattr(pulsar.CompressionType, COMPRESSIONS[self.plan.compression]),
            batching_enabled=self.plan.batching,
            batching_max_publish_delay_ms=max(1, round(self.plan.batch_delay_s * 1000)),
            max_pending_messages=self.plan.pending,
            block_if_queue_full=True,
        )

    def work(self) -> None:
        result, plan, task = self.result, self.plan, self.task
        filler = os.urandom(max(0, plan.size_bytes - HEADER.size))
        until_s = result.began_s + plan.duration_s if plan.duration_s else float("inf")
        sent = 0
        while (not task.messages or sent < task.messages) and not self.stop.is_set() and not result.fault:
            if task.rate and (wait_s := result.began_s + sent / task.rate - time.monotonic()) > 0:
                time.sleep(min(wait_s, TELL_SECONDS))
                if time.monotonic() >= until_s:
                    break
                continue
            if time.monotonic() >= until_s:
                break
            if not self._room.acquire(timeout=TELL_SECONDS):
                continue
            now_ns = time.monotonic_ns()
            payload = (HEADER.pack(self.mark, now_ns) + filler)[: plan.size_bytes]
            self._producer.send_async(payload, self._receipt_of(now_ns))
            sent += 1
        deadline_s = time.monotonic() + LAST_RECEIPTS_SECONDS
        while result.messages + result.failed < sent and time.monotonic() < deadline_s:
            self._room.acquire(timeout=TELL_SECONDS)

    def _receipt_of(self, sent_ns: int) -> Callable[[Any, Any], None]:
        """Returns the callback for a message. The client's thread calls it, and would end the process if it raised."""
        result, room = self.result, self._room

        def receipt(answer: Any, message_id: Any) -> None:
            now_ns = time.monotonic_ns()
            if answer == self._ok:
                result.messages += 1
                result.bytes += self.plan.size_bytes
                result.latencies.record((now_ns - sent_ns) // 1000)
                result.ended_s = now_ns / 1_000_000_000
            else:
                result.failed += 1
                result.fault = result_sentence(answer, self.url)
            room.release()

        return receipt


class _BenchConsumer(_BenchClient):
    def attach(self, client: Any) -> None:
        pulsar = import_client()
        position = pulsar.InitialPosition.Earliest if self.plan.from_earliest else pulsar.InitialPosition.Latest
        self._consumer = client.subscribe(
            self.plan.topic,
            self.plan.subscription,
            consumer_type=getattr(pulsar.ConsumerType, TYPES[self.plan.subscription_type]),
            initial_position=position,
            receiver_queue_size=self.plan.queue,
        )

    def work(self) -> None:
        pulsar = import_client()
        result, consumer, mark = self.result, self._consumer, self.mark
        while not self.stop.is_set() and (not self.task.messages or result.messages < self.task.messages):
            try:
                message = consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                continue
            now_ns = time.monotonic_ns()
            data = message._message.data()
            if not result.messages:
                result.began_s = now_ns / 1_000_000_000
            result.messages += 1
            result.bytes += len(data)
            if data[:MARK_BYTES] == mark and len(data) >= HEADER.size:
                result.latencies.record((now_ns - HEADER.unpack_from(data)[1]) // 1000)
            result.ended_s = now_ns / 1_000_000_000
            consumer.acknowledge(message)
        consumer.close()
