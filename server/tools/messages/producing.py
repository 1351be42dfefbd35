"""`magnetar produce`: lines, files and texts become messages. The command succeeds when every one has its receipt."""

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.messages.input_line_rules import LineCutter, LineParser
from magnetar.server.tools.messages.interruption import Interruption
from magnetar.server.tools.messages.json_line_rules import Outgoing
from magnetar.server.tools.messages.message_client import (
    close_quietly,
    import_client,
    open_client,
    result_sentence,
    sentence,
    topic_name,
)
from magnetar.server.tools.messages.message_sources import Named, from_files, from_stream, from_texts
from magnetar.server.tools.messages.output_stream import ClosedOutputError, OutputStream, standard_output
from magnetar.server.tools.messages.position_rules import Place
from magnetar.server.tools.messages.progress import Progress
from magnetar.server.tools.messages.receipts import PENDING_MESSAGES_MAX, Receipts
from magnetar.server.tools.messages.schemas import REGISTRY, WrittenSchema, schema_of_options, schema_of_registry
from magnetar.server.tools.messages.tool_errors import ToolError
from pulsar_proto.counted import counted

MESSAGE_BYTES_MAX = 5 << 20
"""Pulsar's default limit (maxMessageSize). Larger messages need --chunking."""
CHUNKED_BYTES_MAX = 256 << 20
NO_ANSWER_SECONDS = 5.0
"""How much later than its send timeout the client may answer for a message."""
INTERRUPTED_WAIT_SECONDS = 2.0
PACE_LOOK_SECONDS = 0.1

COMPRESSIONS = {"none": "NONE", "lz4": "LZ4", "zlib": "ZLib", "zstd": "ZSTD", "snappy": "SNAPPY"}
"""The kinds of compression by Pulsar's names, with the names of the client."""


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """What `magnetar produce` was asked for."""

    settings: ConnectionSettings
    topic: str
    texts: tuple[str, ...]
    files: tuple[str, ...]
    separator: bytes
    """What ends a line of standard input, which is read when there are no texts and files."""
    parse_line: LineParser
    key: str
    properties: Mapping[str, str]
    event_time_ms: int
    deliver_after_s: float
    deliver_at_ms: int
    null_if_empty: bool
    schema: str
    """A file, or REGISTRY, or empty."""
    schema_type: str
    compression: str
    """One of COMPRESSIONS."""
    batching: bool
    batch_messages: int
    batch_delay_s: float
    chunking: bool
    repeats: int
    rate: float
    """Messages a second; 0 for as many as possible."""
    send_timeout_s: float
    """How long the client tries to send a message; 0 for as long as it takes."""
    producer_name: str
    print_ids: bool
    quiet: bool
    log_level: str


def produce(options: ProduceOptions) -> int:
    """Sends all messages and returns the exit code: 0 when each was acknowledged. Raises ToolError."""
    import_client()
    topic = topic_name(options.topic)
    if not options.texts and not options.files and sys.stdin is None:
        raise ToolError("standard input is closed")
    schema = None if options.schema == REGISTRY else schema_of_options(options.schema, options.schema_type)
    interruption = Interruption().install()
    client = open_client(options.settings, log_level=options.log_level)
    try:
        if options.schema == REGISTRY:
            schema = schema_of_registry(client, topic)
        producer = _create_producer(client, topic, schema, options)
        return _Producing(options, producer, schema, interruption).run()
    finally:
        close_quietly(client)


def _create_producer(client: Any, topic: str, schema: WrittenSchema | None, options: ProduceOptions) -> Any:
    pulsar = import_client()
    announced = {} if schema is None else {"schema": schema.of_client()}
    try:
        return client.create_producer(
            topic,
            producer_name=options.producer_name or None,
            send_timeout_millis=int(options.send_timeout_s * 1000),
            compression_type=getattr(pulsar.CompressionType, COMPRESSIONS[options.compression]),
            max_pending_messages=PENDING_MESSAGES_MAX,
            block_if_queue_full=True,
            batching_enabled=options.batching and not options.chunking,
            batching_max_messages=options.batch_messages,
            batching_max_publish_delay_ms=max(1, int(options.batch_delay_s * 1000)),
            chunking_enabled=options.chunking,
            **announced,
        )
    except pulsar.PulsarException as error:
        raise ToolError(f"{topic}: {sentence(error, options.settings.broker_service_url)}") from None


class _Producing:
    """Sends the messages of one command."""

    def __init__(
        self,
        options: ProduceOptions,
        producer: Any,
        schema: WrittenSchema | None,
        interruption: Interruption,
    ) -> None:
        pulsar = import_client()
        self._options = options
        self._producer = producer
        self._schema = schema
        self._interruption = interruption
        self._ok = pulsar.Result.Ok
        self._receipts = Receipts(keep_ids=options.print_ids)
        self._output: OutputStream | None = standard_output() if options.print_ids else None
        self._progress = Progress("message", "acknowledged", quiet=options.quiet)
        self._began_s = time.monotonic()
        self._sent = 0

    def run(self) -> int:
        """Returns the exit code. Raises ToolError for whatever keeps a message from being sent or acknowledged, after
        the others have their receipts."""
        fault: ToolError | None = None
        try:
            self._send_all()
        except ToolError as error:
            fault = error
        except ClosedOutputError:
            fault = ToolError("nobody reads the ids any more")
        except OSError as error:
            fault = ToolError(f"standard input or output: {error.strerror}")
        self._wait()
        self._progress.end(self._receipts.acknowledged)
        sent = counted(self._sent, "message sent was", "messages sent were")
        done = f"{self._receipts.acknowledged} of {sent} acknowledged"
        if self._receipts.failure is not None:
            _, name, result = self._receipts.failure
            reason = result_sentence(result, self._options.settings.broker_service_url)
            raise ToolError(f"{name} was not acknowledged: {reason}; {done}")
        if fault is not None:
            raise ToolError(f"{fault}; {done}")
        if self._receipts.pending:
            raise ToolError(f"no answer for {counted(self._receipts.pending, 'message')}; {done}")
        if self._interruption:
            print(f"magnetar produce: interrupted; {done}", file=sys.stderr)
        return self._interruption.exit_code

    def _messages(self) -> Iterator[Named | None]:
        options = self._options
        bytes_max = CHUNKED_BYTES_MAX if options.chunking else MESSAGE_BYTES_MAX
        if options.texts or options.files:
            yield from from_texts(options.texts)
            yield from from_files(options.files, bytes_max)
        else:
            cutter = LineCutter(options.separator, bytes_max)
            yield from from_stream(sys.stdin.fileno(), cutter, options.parse_line)

    def _send_all(self) -> None:
        for named in self._messages():
            self._tell()
            if self._interruption or self._receipts.failure is not None:
                return
            if named is None:
                continue
            name, message = named
            try:
                prepared = self._prepared(message)
            except ValueError as error:
                raise ToolError(f"{name}: {error}") from None
            for _ in range(self._options.repeats):
                if not self._pace() or not self._send(name, prepared):
                    return

    def _prepared(self, message: Outgoing) -> Outgoing:
        """Returns the message with its value encoded, and with what the options say about all messages."""
        options = self._options
        value = message.value
        if value is not None and self._schema is not None:
            value = self._schema.encode(value)
        return replace(
            message,
            value=None if options.null_if_empty and not value else value,
            key=message.key or options.key,
            properties={**options.properties, **message.properties},
            event_time_ms=message.event_time_ms or options.event_time_ms,
        )

    def _pace(self) -> bool:
        """Waits until the rate allows another message. Returns False when the command has to end instead."""
        if self._options.rate:
            due_s = self._began_s + self._sent / self._options.rate
            while (left := due_s - time.monotonic()) > 0 and not self._interruption:
                time.sleep(min(left, PACE_LOOK_SECONDS))
                self._tell()
        return not self._interruption

    def _send(self, name: str, message: Outgoing) -> bool:
        """Sends one message. Returns False when the command has to end instead."""
        pulsar = import_client()
        receipts, ok = self._receipts, self._ok
        size = len(message.value or b"")
        number = receipts.begin(size, self._interruption)
        if not number:
            return False
        self._sent += 1
        options = self._options
        try:
            self._producer.send_async(
                message.value,
                lambda result, message_id: receipts.answer(number, name, size, result == ok, result, message_id),
                properties=dict(message.properties),
                partition_key=message.key or None,
                ordering_key=message.ordering_key or None,
                event_timestamp=message.event_time_ms or None,
                deliver_at=options.deliver_at_ms or None,
                deliver_after=timedelta(seconds=options.deliver_after_s) if options.deliver_after_s else None,
            )
        except pulsar.PulsarException as error:
            receipts.answer(number, name, size, False, error, None)
            return False
        return True

    def _wait(self) -> None:
        """Waits for the receipts of all messages that were sent."""
        seconds = self._options.send_timeout_s + NO_ANSWER_SECONDS
        until_s = time.monotonic() + seconds if self._options.send_timeout_s else float("inf")
        while not self._receipts.wait_for_all(PACE_LOOK_SECONDS) and time.monotonic() < until_s:
            self._progress.update(self._receipts.acknowledged)
            if self._interruption:
                self._receipts.wait_for_all(INTERRUPTED_WAIT_SECONDS)
                break
        with contextlib.suppress(ClosedOutputError, OSError):  # What became of the messages is told in any case.
            self._print_ids()

    def _tell(self) -> None:
        """Prints the ids that are known by now, and how far the command has come."""
        self._progress.update(self._receipts.acknowledged)
        self._print_ids()

    def _print_ids(self) -> None:
        if self._output is not None and (ids := self._receipts.take_ids()):
            places = [Place(each.ledger_id(), each.entry_id(), each.partition(), each.batch_index()) for each in ids]
            self._output.write("".join(f"{place}\n" for place in places).encode())
