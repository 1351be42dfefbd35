"""`magnetar consume`: messages of a subscription go to standard output, and are acknowledged once they are there."""

import re
import sys
import time
from dataclasses import dataclass
from typing import Any

from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.messages.interruption import Interruption
from magnetar.server.tools.messages.message_client import (
    close_quietly,
    import_client,
    open_client,
    sentence,
    topic_name,
)
from magnetar.server.tools.messages.output_stream import ClosedOutputError, OutputStream, standard_output
from magnetar.server.tools.messages.progress import Progress
from magnetar.server.tools.messages.received import MessagePrinter, formatter_of
from magnetar.server.tools.messages.schemas import ValueDecoder
from magnetar.server.tools.messages.tool_errors import ToolError
from pulsar_proto.counted import counted

GROUP_MESSAGES_MAX = 200
GROUP_BYTES_MAX = 1 << 18
"""A group of this many messages or bytes is written and acknowledged, even when more messages wait."""
IDLE_MS = 100
"""How long the consumer waits for a message until it looks whether it shall end."""
QUEUE_MAX = 1000

TYPES = {"Exclusive": "Exclusive", "Shared": "Shared", "Failover": "Failover", "Key_Shared": "KeyShared"}
"""The types of subscription by Pulsar's names, with the names of the client."""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What `magnetar consume` was asked for."""

    settings: ConnectionSettings
    topics: tuple[str, ...]
    """The names of topics, or one pattern."""
    is_pattern: bool
    subscription: str
    subscription_type: str
    """One of TYPES."""
    from_earliest: bool
    """Where a new subscription begins."""
    count: int
    """How many messages to consume; 0 for all that come."""
    idle_timeout_s: float
    """After how long without a message to end; 0 for never."""
    form: str
    as_json: bool
    raw: bool
    quiet: bool
    consumer_name: str
    log_level: str


def consume(options: ConsumeOptions) -> int:
    """Consumes until the count, the idle time, a signal or the end of the reader. Returns the exit code. Raises
    ToolError."""
    pulsar = import_client()
    topics = list(options.topics) if options.is_pattern else [topic_name(topic) for topic in options.topics]
    interruption = Interruption().install()
    output = standard_output()
    formatter = formatter_of(options.form, options.as_json, output.is_terminal)
    client = open_client(options.settings, log_level=options.log_level)
    try:
        consumer = _subscribe(client, topics, options)
        printer = MessagePrinter(formatter, None if options.raw else ValueDecoder(client), "consume")
        loop = _Consuming(options, consumer, printer, output, interruption)
        try:
            return loop.run()
        except pulsar.PulsarException as error:
            raise ToolError(sentence(error, options.settings.broker_service_url)) from None
        finally:
            close_quietly(consumer)
    finally:
        close_quietly(client)


def _subscribe(client: Any, topics: list[str], options: ConsumeOptions) -> Any:
    pulsar = import_client()
    topic: Any = topics[0] if len(topics) == 1 else topics
    if options.is_pattern:
        topic = re.compile(topics[0])
    domains = pulsar.RegexSubscriptionMode
    is_volatile = topics[0].startswith("non-persistent://")
    position = pulsar.InitialPosition.Earliest if options.from_earliest else pulsar.InitialPosition.Latest
    try:
        return client.subscribe(
            topic,
            options.subscription,
            consumer_type=getattr(pulsar.ConsumerType, TYPES[options.subscription_type]),
            initial_position=position,
            # What is received beyond the count would be counted as delivered, and would come again to others late.
            receiver_queue_size=min(QUEUE_MAX, options.count or QUEUE_MAX),
            consumer_name=options.consumer_name or None,
            batch_index_ack_enabled=True,
            pattern_auto_discovery_period=1,
            regex_subscription_mode=domains.NonPersistentOnly if is_volatile else domains.PersistentOnly,
        )
    except pulsar.PulsarException as error:
        where = ", ".join(topics)
        raise ToolError(f"{where}: {sentence(error, options.settings.broker_service_url)}") from None
    except ValueError as error:
        raise ToolError(f"{', '.join(topics)}: {error}") from None


class _Consuming:
    """The loop of a consumer: a group is received, then written, then acknowledged."""

    def __init__(
        self,
        options: ConsumeOptions,
        consumer: Any,
        printer: MessagePrinter,
        output: OutputStream,
        interruption: Interruption,
    ) -> None:
        self._options = options
        self._consumer = consumer
        self._printer = printer
        self._output = output
        self._interruption = interruption
        self._progress = Progress("message", quiet=options.quiet or output.is_terminal)
        self._consumed = 0
        self._last_message_s = time.monotonic()
        self._is_connected = True

    def run(self) -> int:
        try:
            while not self._interruption and not self._is_complete() and not self._is_idle():
                self._turn()
        except ClosedOutputError:
            return 0
        except OSError as error:
            raise ToolError(f"standard output: {error.strerror}") from None
        finally:
            self._progress.end(self._consumed)
        if self._is_complete():
            return 0
        if self._interruption:
            return self._interruption.exit_code
        if self._options.count:
            waited = f"{self._options.idle_timeout_s:g} s passed without a message"
            raise ToolError(f"{self._consumed} of {counted(self._options.count, 'message')} came, then {waited}")
        return 0

    def _is_complete(self) -> bool:
        return bool(self._options.count) and self._consumed >= self._options.count

    def _is_idle(self) -> bool:
        limit_s = self._options.idle_timeout_s
        return limit_s > 0 and time.monotonic() - self._last_message_s >= limit_s

    def _turn(self) -> None:
        group = self._receive_group()
        if not group:
            self._output.check()
            self._tell_connection()
            return
        self._output.write(b"".join([self._printer.output_of(message) for message in group]))
        for message in group:
            self._consumer.acknowledge(message)
        self._consumed += len(group)
        self._last_message_s = time.monotonic()
        self._progress.update(self._consumed)

    def _receive_group(self) -> list[Any]:
        """Returns the messages that are there, or waits for one for a short while."""
        pulsar = import_client()
        limit = GROUP_MESSAGES_MAX
        if self._options.count:
            limit = min(limit, self._options.count - self._consumed)
        group: list[Any] = []
        size = 0
        try:
            while len(group) < limit and size < GROUP_BYTES_MAX:
                message = self._consumer.receive(0 if group else IDLE_MS)
                size += message._message.length()
                group.append(message)
        except pulsar.Timeout:
            pass
        return group

    def _tell_connection(self) -> None:
        """Says once that the server is away, and that it is back: silence could mean both that and no messages."""
        if self._options.is_pattern or self._consumer.is_connected() == self._is_connected:
            return
        self._is_connected = not self._is_connected
        text = "connected again" if self._is_connected else "the server is away; waiting for it"
        print(f"magnetar consume: {text}", file=sys.stderr)
