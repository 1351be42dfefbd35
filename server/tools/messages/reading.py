"""`magnetar read`: messages of topics go to standard output, and no subscription knows of it."""

import time
from dataclasses import dataclass
from typing import Any

from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of
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
from magnetar.server.tools.messages.position_rules import End, Moment, Place, Position
from magnetar.server.tools.messages.progress import Progress
from magnetar.server.tools.messages.received import MessagePrinter, formatter_of, place_of
from magnetar.server.tools.messages.schemas import ValueDecoder
from magnetar.server.tools.messages.tool_errors import ToolError
from magnetar.server.tools.messages.topic_pattern_rules import matching, parse_pattern
from pulsar_proto.counted import counted
from pulsar_proto.names import TopicName

GROUP_MESSAGES_MAX = 200
GROUP_BYTES_MAX = 1 << 18
WAIT_MS = 200
"""How long one round over all partitions waits for messages."""
TOPICS_MAX = 1000
"""How many topics and partitions are read at once. Each has a reader with a queue of its own."""
QUEUE_MAX, QUEUES_TOTAL_MAX = 1000, 10_000
"""How many messages wait in the queue of one reader, and in all queues together."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What `magnetar read` was asked for."""

    settings: ConnectionSettings
    topics: tuple[str, ...]
    """The names of topics, or one pattern."""
    is_pattern: bool
    start: Position
    stop: Position | None
    """Where to end, the message itself included; None for the end of the topic."""
    follow: bool
    """Whether to wait for messages that are still to come."""
    count: int
    """How many messages to read; 0 for all."""
    compacted: bool
    form: str
    as_json: bool
    raw: bool
    quiet: bool
    log_level: str


def read(options: ReadOptions) -> int:
    """Reads until all partitions are at their end, the count is reached, a signal came or the reader of the output went
    away. Returns the exit code. Raises ToolError."""
    pulsar = import_client()
    topics = _topics(options)
    interruption = Interruption().install()
    output = standard_output()
    formatter = formatter_of(options.form, options.as_json, output.is_terminal)
    url = options.settings.broker_service_url
    client = open_client(options.settings, log_level=options.log_level)
    try:
        partitions = _partitions(client, topics, options)
        printer = MessagePrinter(formatter, None if options.raw else ValueDecoder(client), "read")
        try:
            queue = max(1, min(QUEUE_MAX, QUEUES_TOTAL_MAX // len(partitions)))
            tails = [_Tail(client, name, options, queue) for name in partitions]
            return _copy(tails, options, printer, output, interruption)
        except pulsar.PulsarException as error:
            raise ToolError(f"{', '.join(topics)}: {sentence(error, url)}") from None
        except ClosedOutputError:
            return 0
        except OSError as error:
            raise ToolError(f"standard output: {error.strerror}") from None
    finally:
        close_quietly(client)


def _topics(options: ReadOptions) -> list[str]:
    """Returns the names in full. Those that a pattern matches are asked of the admin interface."""
    if not options.is_pattern:
        return [topic_name(topic) for topic in options.topics]
    try:
        namespace, pattern = parse_pattern(options.topics[0])
        path = path_of("admin", "v2", "namespaces", namespace.tenant, namespace.name, "topics")
        found = matching(pattern, AdminHttp(options.settings).get(path).json())
    except ValueError as error:
        raise ToolError(str(error)) from None
    except AdminCallError as error:
        raise ToolError(f"the topics of a pattern are asked of {options.settings.web_service_url}: {error}") from None
    if not found:
        raise ToolError(f"no topic of {namespace} matches '{options.topics[0]}'")
    return found


def _partitions(client: Any, topics: list[str], options: ReadOptions) -> list[str]:
    """Returns the topics, with all partitions in place of a partitioned topic. Of one that is read from or to an id, it
    returns only the partition that the id names. Raises ToolError."""
    pulsar = import_client()
    names: list[str] = []
    for topic in topics:
        try:
            found = client.get_topic_partitions(topic)
        except pulsar.PulsarException as error:
            raise ToolError(f"{topic}: {sentence(error, options.settings.broker_service_url)}") from None
        names += _of_ids(topic, found, options)
    if len(names) > TOPICS_MAX:
        raise ToolError(f"these are {len(names)} topics and partitions; at most {TOPICS_MAX} can be read at once")
    return names


def _of_ids(topic: str, partitions: list[str], options: ReadOptions) -> list[str]:
    for place in (options.start, options.stop):
        if not isinstance(place, Place):
            continue
        if len(options.topics) > 1 or options.is_pattern:
            raise ToolError(f"the id {place} belongs to one topic: read that topic alone")
        if partitions == [topic]:
            continue
        if not 0 <= place.partition < len(partitions):
            raise ToolError(
                f"{topic} has {counted(len(partitions), 'partition')}, and the id {place} names none of them: "
                f"write {place.ledger}:{place.entry}:PARTITION"
            )
        partitions = [TopicName.parse(topic).partition(place.partition).full]
    return partitions


class _Tail:
    """The reader of one topic or partition, and whether it has come to its end."""

    def __init__(self, client: Any, topic: str, options: ReadOptions, queue: int) -> None:
        pulsar = import_client()
        self._stop = options.stop
        self._follow = options.follow
        self.is_done = False
        start: Any = pulsar.MessageId.earliest
        if options.start is End.LATEST:
            start = pulsar.MessageId.latest
        elif isinstance(options.start, Place):
            place = options.start
            start = pulsar.MessageId(-1, place.ledger, place.entry, place.batch_index)
        self._reader = client.create_reader(
            topic,
            start,
            receiver_queue_size=queue,
            start_message_id_inclusive=True,
            is_read_compacted=options.compacted,
        )
        if isinstance(options.start, Moment):
            self._reader.seek(options.start.ms)

    def take(self, count: int, wait_ms: int) -> list[Any]:
        """Returns up to `count` messages, after up to `wait_ms` of waiting for the first of them."""
        pulsar = import_client()
        group: list[Any] = []
        size = 0
        while not self.is_done and len(group) < count and size < GROUP_BYTES_MAX:
            if not self._follow and not self._reader.has_message_available():
                self.is_done = True
                break
            try:
                message = self._reader.read_next(0 if group and self._follow else wait_ms)
            except pulsar.Timeout:
                self._look_at_clock()
                break
            self.is_done = self._is_last(message)
            if not self._is_beyond(message):
                group.append(message)
                size += message._message.length()
        return group

    def _is_last(self, message: Any) -> bool:
        """Returns whether the end has come with this message, which may lie beyond it."""
        is_stop = isinstance(self._stop, Place) and self._stop.is_at(place_of(message))
        return is_stop or self._is_beyond(message)

    def _is_beyond(self, message: Any) -> bool:
        if isinstance(self._stop, Place):
            return self._stop.is_before(place_of(message))
        if isinstance(self._stop, Moment):
            return bool(message.publish_timestamp() > self._stop.ms)
        return False

    def _look_at_clock(self) -> None:
        """Ends the wait for messages up to a time that has passed."""
        if isinstance(self._stop, Moment) and time.time() * 1000 > self._stop.ms:
            self.is_done = not self._reader.has_message_available()


def _copy(
    tails: list[_Tail],
    options: ReadOptions,
    printer: MessagePrinter,
    output: OutputStream,
    interruption: Interruption,
) -> int:
    """Writes what the tails give, a group at a time, and returns the exit code."""
    progress = Progress("message", quiet=options.quiet or output.is_terminal)
    done = 0
    try:
        while tails and not interruption:
            wait_ms = max(1, WAIT_MS // len(tails))
            for tail in tails:
                limit = min(GROUP_MESSAGES_MAX, options.count - done) if options.count else GROUP_MESSAGES_MAX
                group = tail.take(limit, wait_ms)
                if group:
                    output.write(b"".join([printer.output_of(message) for message in group]))
                done += len(group)
                progress.update(done)
                if interruption or (options.count and done >= options.count):
                    break
            if options.count and done >= options.count:
                return 0
            output.check()
            tails = [tail for tail in tails if not tail.is_done]
    finally:
        progress.end(done)
    return interruption.exit_code
