"""The driver's part of reading: the planner finds the partitions, the start and the end of a query, and the query's
tasks.

The arithmetic is in `ranges.planning_rules`; the planner asks the broker for the facts that the arithmetic needs.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from magnetar.spark.source.client.admin_client import NOT_FOUND, AdminClient, AdminError
from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.message_counter import MessageCounter
from magnetar.spark.source.options import EARLIEST, LATEST, LATEST_LEDGER, BadOption, QueryEdge, ReadOptions
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.continuity_rules import DataLoss
from magnetar.spark.source.ranges.planning_rules import (
    PART_BYTES_MIN,
    LedgerRun,
    clip,
    first_mean,
    one_ledger,
    parts_for,
    runs_of,
    split,
)
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

LATEST_TIME, EARLIEST_TIME = -1, -2
TOPIC_WAIT_SECONDS = 5.0
SAMPLE_SECONDS = 10.0
SAMPLE_ENTRIES, SAMPLE_BYTES = 16, 4 * 1024 * 1024
ENTRY_BYTES_MAX = 5 * 1024 * 1024
"""The longest entry that brokers take by default (maxMessageSize). When a range would fit into one task even with
entries of this size, the planner does not ask for the sizes of entries."""

Times = int | Mapping[str, int]


class Planner:
    """Plans the reading of a query. The planner keeps one idle reader for each partition, through which it asks for the
    last message. The caller calls `close` at the end."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        address = options.address
        self.client = PulsarClient(address.service_url, address.login)
        self._admin = AdminClient(address.admin_url, address.login) if address.admin_url else None
        self._settings = ReaderSettings(f"{options.reader_name}-driver", 1)
        self._idle: dict[str, PartitionReader] = {}

    def close(self) -> None:
        for reader in self._idle.values():
            reader.close()
        self._idle.clear()
        self.client.close()

    def topics(self) -> list[str]:
        """Returns the full names of the topics, with one name for a partitioned topic: the topics that the option
        names, or the topics that match the pattern now."""
        if self._options.pattern:
            return self.client.persist(lambda: self.client.topics_matching(self._options.pattern))
        return list(self._options.topics)

    def partitions(self) -> list[str]:
        """Returns the full names of all partitions, sorted. A topic that the pattern found and that was deleted
        meanwhile is left out. If a topic that the options name does not exist, the call waits until the topic exists
        when the option `waitingForNonExistedTopic` is set, and raises TopicNotFound otherwise."""
        names: list[str] = []
        for topic in self.topics():
            try:
                names += self._partitions_of(topic)
            except TopicNotFound:
                if not self._options.pattern:
                    raise  # a topic that a pattern found may have been deleted meanwhile
        return sorted(names)

    def _partitions_of(self, topic: str) -> list[str]:
        while True:
            try:
                return self.client.persist(lambda: self.client.partitions(topic))
            except TopicNotFound:
                if self._options.pattern or not self._options.wait_for_topics:
                    self.client.check_namespace(str(TopicName.parse(topic).namespace))
                    raise TopicNotFound(f"topic {topic} does not exist") from None
                time.sleep(TOPIC_WAIT_SECONDS)

    def schema(self) -> pb.Schema | None:
        """Returns the schema that all topics have in common, or None for bytes. Raises ValueError when the schemas
        differ and the options do not allow that."""
        if self._options.different_schemas:
            return None
        schemas = {}
        for topic in self.topics():
            found = self.client.persist(lambda topic=topic: self.client.schema(topic))  # type: ignore[misc]
            schemas[topic] = found
        kept: tuple[str, pb.Schema | None] | None = None
        for topic, schema in schemas.items():
            if kept is not None and _content(schema) != _content(kept[1]):
                raise ValueError(
                    f"topics {kept[0]} and {topic} have different schemas: "
                    "read them apart, or as bytes with allowDifferentTopicSchemas=true"
                )
            kept = kept or (topic, schema)
        return kept[1] if kept else None

    def check_schema(self, name: str, known: bytes | None) -> None:
        """Checks the schema of a topic that appeared while a query runs. `known` is the schema that the query began
        with. Raises ValueError when the new topic's schema is neither `known` nor the schema that the other topics have
        by now, because all values of the new topic would be bad. A topic that has no schema yet passes."""
        if self._options.different_schemas:
            return
        found = self.client.persist(lambda: self.client.schema(name))
        if found is not None and _content(found) != _content(None if known is None else pb.Schema.FromString(known)):
            self.schema()

    def last(self, name: str) -> Bound:
        """Returns the partition's last entry, or BEFORE_ALL when the partition is empty."""
        return self._reader(name).last_and_mark_delete()[0]

    def _reader(self, name: str) -> PartitionReader:
        if name not in self._idle:
            self._idle[name] = PartitionReader(self.client, name, BEFORE_ALL, self._settings)
        return self._idle[name]

    def forget(self, name: str) -> None:
        if name in self._idle:
            self._idle.pop(name).close()

    def start(self, name: str, *, is_new: bool = False) -> Bound:
        """Returns the bound before a query's first message. Partitions that appear later (`is_new`) are read from their
        beginning."""
        options = self._options
        if is_new:
            return BEFORE_ALL
        if options.starting_time is not None:
            return self._at_time(name, options.starting_time, EARLIEST)
        if options.starting == EARLIEST:
            return BEFORE_ALL
        if options.starting == LATEST:
            return self.last(name)
        assert not isinstance(options.starting, str)
        given = options.starting.get(name)
        if given is None:
            return BEFORE_ALL
        last = self.last(name)
        if given.ledger == LATEST_LEDGER or self._is_beyond("startingOffsets", name, given, last):
            return last
        return given.before()

    def _is_beyond(self, option: str, name: str, given: Bound, last: Bound) -> bool:
        """Returns whether an option names an id behind the partition's last message. Raises DataLoss in that case
        unless the options allow losses. The id that would come next is not behind it."""
        if given[:2] <= last[:2] or given.before() == last:
            return False
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"option {option}: {given} of {name} does not exist, the last message is {last}; "
                "failOnDataLoss=false takes the end instead"
            )
        return True

    def check_names(self, names: Sequence[str]) -> None:
        """Raises BadOption when an option has an id or a time for a topic that is not among the partitions `names`, or
        ids for a partitioned topic as a whole: they would have no effect. A time holds for all of a topic's
        partitions."""
        options = self._options
        topics = {TopicName.parse(name).base.full for name in names}
        for option, edge in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
            for name in sorted(set() if isinstance(edge, str) else set(edge) - set(names)):
                if parts := [each for each in names if TopicName.parse(each).base.full == name]:
                    raise BadOption(f"option {option}: {name} has partitions, give the ids of {', '.join(parts)}")
                raise BadOption(_not_read(option, name, names))
        for option, times in (("startingTime", options.starting_time), ("endingTime", options.ending_time)):
            for name in sorted(set(times) - set(names) - topics if isinstance(times, Mapping) else ()):
                raise BadOption(_not_read(option, name, names))

    def end(self, name: str) -> Bound:
        """Returns the last message that a batch query reads."""
        options = self._options
        if options.ending_time is not None:
            return self._at_time(name, options.ending_time, LATEST)
        last = self.last(name)
        if isinstance(options.ending, str):
            return last
        given = options.ending.get(name, last)
        if given.ledger == LATEST_LEDGER or self._is_beyond("endingOffsets", name, given, last):
            return last
        return given

    def _at_time(self, name: str, times: Times, missing: QueryEdge) -> Bound:
        """Returns the bound before the first message that was published at or after the time. `missing` is the place
        where a partition without a time of its own in `times` begins or ends. Raises ValueError when the time is that
        of a query's start, no message is that young, and the options want an error then."""
        when = times if isinstance(times, int) else times.get(name, times.get(TopicName.parse(name).base.full))
        if when is None:
            when = EARLIEST_TIME if missing == EARLIEST else LATEST_TIME
        if when == EARLIEST_TIME:
            return BEFORE_ALL
        if when == LATEST_TIME:
            return self.last(name)
        last, before = self._seek(name, when)
        if before >= last and missing == EARLIEST and self._options.no_message_at_time == "error":
            raise ValueError(f"{name} has no message published at or after {when}")
        return min(before, last)

    def before_time(self, name: str, milliseconds: int) -> Bound:
        """Returns the bound before the first message that was published at or after a time, as the broker finds it by
        bisection; for a time before all messages that is BEFORE_ALL, and for a later one the last message."""
        return BEFORE_ALL if milliseconds <= 0 else min(self._seek(name, milliseconds))

    def _seek(self, name: str, milliseconds: int) -> tuple[Bound, Bound]:
        """Returns the last entry, and the entry before the first one that was published at or after a time."""
        reader = PartitionReader(self.client, name, BEFORE_ALL, self._settings)
        try:
            reader.seek_time(milliseconds)
            return reader.last_and_mark_delete()
        finally:
            reader.close()

    def ledgers(self, name: str, wanted: Range, *, patient: bool = True) -> list[LedgerRun]:
        """Returns all ledgers of a partition that hold entries. Without an admin URL, or when the admin interface does
        not know the topic, returns what `one_ledger` derives from the range `wanted`. Unless the call is `patient`,
        that is also the answer when the admin interface does not answer at once."""
        if self._admin is None:
            return one_ledger(wanted)
        try:
            return runs_of(self._admin.internal_stats(name, patient=patient))
        except AdminError as error:
            if patient and error.status != NOT_FOUND:
                raise
            return one_ledger(wanted)  # the topic was deleted meanwhile: the tasks will find that, and report it

    @property
    def has_admin(self) -> bool:
        return self._admin is not None

    def counter(self, name: str, after: Bound, *, permits: int = 0) -> MessageCounter:
        """Returns a new counter of the messages behind `after`; the caller closes it. `permits` is how many messages
        are under way at most; by default the option receiverQueueSize says it."""
        options = self._options
        settings = replace(self._settings, permits=permits or options.permits, read_compacted=options.read_compacted)
        return MessageCounter(self.client, name, after, settings, timeout_seconds=options.poll_timeout_seconds)

    def tasks(self, name: str, wanted: Range, partitions: int, *, repeatable: bool) -> list[Range]:
        """Returns the parts that one partition's range is split into, a task each. `partitions` is the number of
        partitions that share the options minPartitions and cores. A `repeatable` split depends on nothing that changes
        while a ledger grows, such as the average size of the ledger's entries."""
        if wanted.is_empty:
            return []
        parts = self._tasks_of_bytes(name, wanted, partitions, repeatable=repeatable)
        return self._tasks_of_messages(name, parts) if self._options.max_messages_per_task else parts

    def _tasks_of_messages(self, name: str, parts: Sequence[Range]) -> list[Range]:
        """Splits each part into tasks of maxRecordsPerPartition messages, and one task with the rest. The messages are
        counted, so the split is the same whenever it is repeated."""
        counter = self.counter(name, parts[0].after)
        found = []
        try:
            for part in parts:
                after = part.after
                while after < part.upto:
                    end = counter.take(part.upto, self._options.max_messages_per_task).end
                    found.append(Range(after, end))
                    after = end
        finally:
            counter.close()
        return found

    def _tasks_of_bytes(self, name: str, wanted: Range, partitions: int, *, repeatable: bool) -> list[Range]:
        options = self._options
        pieces, cores = (-(-each // max(1, partitions)) for each in (options.min_partitions, options.cores))
        if options.read_compacted or (self._admin is None and pieces < 2):
            return [wanted]
        bytes_max = options.max_bytes_per_partition or None
        runs = self.ledgers(name, wanted)
        if repeatable and (bytes_max or cores > 1):
            entries = sum(run.entries for run in clip(runs, wanted))
            may_split = entries * ENTRY_BYTES_MAX > (bytes_max or PART_BYTES_MIN)
            size = self._first_size(name, wanted) if may_split else 0.0
            runs = [replace(run, entry_bytes=size) for run in runs]
        return split(runs, wanted, max(pieces, parts_for(cores, clip(runs, wanted))), bytes_max)

    def _first_size(self, name: str, wanted: Range) -> float:
        """Returns the mean size of the range's first entries in bytes, or 0 when these entries do not come in time."""
        reader = PartitionReader(self.client, name, wanted.after, replace(self._settings, permits=SAMPLE_ENTRIES))
        sizes: list[int] = []
        deadline = time.monotonic() + SAMPLE_SECONDS
        try:
            while len(sizes) < SAMPLE_ENTRIES and sum(sizes) < SAMPLE_BYTES:
                block = reader.read_block(deadline)
                if block is None:
                    break
                sizes += (block.stops - block.starts).tolist()
                if block.place(-1) >= wanted.upto[:2]:
                    break
        except TopicNotFound:
            return 0.0
        finally:
            reader.close()
        return first_mean(sizes, SAMPLE_ENTRIES, SAMPLE_BYTES)

    def gone(self, names: list[str], otherwise: str = "") -> None:
        """Handles partitions that a checkpoint names and the broker does not have. Raises DataLoss unless the options
        allow losses; `otherwise` is another possible reason, for the error's text."""
        for name in names:
            self.forget(name)
        if names and self._options.fail_on_data_loss:
            why = " ".join(["no longer exist", otherwise]).strip()
            raise DataLoss(f"{', '.join(names)} {why}; failOnDataLoss=false goes on without what they held unread")


def _content(schema: pb.Schema | None) -> tuple[object, ...] | None:
    """Returns the parts of a schema by which schemas are compared: all but the name."""
    if schema is None:
        return None
    properties = sorted((pair.key, pair.value) for pair in schema.properties)
    return schema.type, schema.schema_data, tuple(properties)


def _not_read(option: str, name: str, names: Sequence[str]) -> str:
    return f"option {option}: {name} is not read; what is read are {', '.join(names) or 'no topics'}"


def partition_of(name: str) -> int:
    return TopicName.parse(name).partition_index
