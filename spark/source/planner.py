"""The driver's part of reading: the planner finds the partitions, the start and the end of a query, and the query's
tasks.

The arithmetic is in `ranges.planning_rules`; the planner asks the broker for the facts that the arithmetic needs.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from magnetar.spark.source.client.admin_client import NOT_FOUND, AdminClient, AdminError
from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import EARLIEST, LATEST, BadOption, QueryEdge, ReadOptions
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.continuity_rules import DataLoss
from magnetar.spark.source.ranges.planning_rules import LedgerRun, clip, first_mean, one_ledger, runs_of, split, take
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

LATEST_TIME, EARLIEST_TIME = -1, -2
TOPIC_WAIT_SECONDS = 5.0
LATEST_LEDGER = 2**63 - 1
"""The ledger of Java's MessageId.latest, which offsets of the published connector may name."""
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
        if given is not None and given.ledger == LATEST_LEDGER:
            return self.last(name)
        return BEFORE_ALL if given is None else given.before()

    def check_ids(self, names: list[str]) -> None:
        """Raises BadOption when ids are given for a partitioned topic as a whole, because such ids would have no
        effect."""
        for option, edge in (("startingOffsets", self._options.starting), ("endingOffsets", self._options.ending)):
            for name in () if isinstance(edge, str) else edge:
                if name not in names and (parts := [each for each in names if TopicName.parse(each).base.full == name]):
                    raise BadOption(f"option {option}: {name} has partitions, give the ids of {', '.join(parts)}")

    def end(self, name: str) -> Bound:
        """Returns the last message that a batch query reads."""
        options = self._options
        if options.ending_time is not None:
            return self._at_time(name, options.ending_time, LATEST)
        last = self.last(name)
        if isinstance(options.ending, str):
            return last
        given = options.ending.get(name, last)
        return last if given.ledger == LATEST_LEDGER else given

    def _at_time(self, name: str, times: Times, missing: QueryEdge) -> Bound:
        """Returns the bound before the first message that was published at or after the time. `missing` is the place
        where a partition without a time of its own in `times` begins or ends. Raises ValueError when the time is that
        of a query's start, no message is that young, and the options want an error then."""
        when = times if isinstance(times, int) else times.get(name)
        if when is None:
            when = EARLIEST_TIME if missing == EARLIEST else LATEST_TIME
        if when == EARLIEST_TIME:
            return BEFORE_ALL
        if when == LATEST_TIME:
            return self.last(name)
        reader = PartitionReader(self.client, name, BEFORE_ALL, self._settings)
        try:
            reader.seek_time(when)
            last, before = reader.last_and_mark_delete()
        finally:
            reader.close()
        if before >= last and missing == EARLIEST and self._options.no_message_at_time == "error":
            raise ValueError(f"{name} has no message published at or after {when}")
        return min(before, last)

    def ledgers(self, name: str, wanted: Range) -> list[LedgerRun]:
        """Returns all ledgers of a partition that hold entries. Without an admin URL, or when the admin interface does
        not know the topic, returns what `one_ledger` derives from the range `wanted`."""
        if self._admin is None:
            return one_ledger(wanted)
        try:
            return runs_of(self._admin.internal_stats(name))
        except AdminError as error:
            if error.status != NOT_FOUND:
                raise
            return one_ledger(wanted)  # the topic was deleted meanwhile: the tasks will find that, and report it

    def capped(self, wanted: Mapping[str, Range]) -> dict[str, Bound]:
        """Returns for each range an end within the limits of a trigger. The limits are shared out evenly over the
        partitions that have something to read."""
        options = self._options
        waiting = [name for name, each in wanted.items() if not each.is_empty]
        ends = {name: each.upto for name, each in wanted.items()}
        if not (options.max_messages or options.max_bytes):
            return ends
        for name in waiting:
            entries: int | None = None
            if options.max_messages:
                share = max(1, options.max_messages // len(waiting))
                entries = max(1, share // self._messages_per_entry(name, wanted[name]))
            bytes_max = max(1, options.max_bytes // len(waiting)) if options.max_bytes else None
            ends[name] = take(self.ledgers(name, wanted[name]), wanted[name], entries, bytes_max)
        return ends

    def _messages_per_entry(self, name: str, wanted: Range) -> int:
        """Returns how many messages the range's first entry has, or 1 when that entry does not come in time. By this
        number the planner converts a limit, which counts messages, to entries, which ledgers count."""
        reader = PartitionReader(self.client, name, wanted.after, self._settings)
        try:
            block = reader.read_block(time.monotonic() + SAMPLE_SECONDS)
        finally:
            reader.close()
        return 1 if block is None else block.pick(np.zeros(1, np.int64)).message_count()

    def tasks(self, name: str, wanted: Range, partitions: int, *, repeatable: bool) -> list[Range]:
        """Returns the parts that one partition's range is split into, a task each. `partitions` is the number of
        partitions that share the option minPartitions. A `repeatable` split depends on nothing that changes while a
        ledger grows, such as the average size of the ledger's entries."""
        if wanted.is_empty:
            return []
        options = self._options
        pieces = -(-options.min_partitions // max(1, partitions))
        if options.read_compacted or (self._admin is None and pieces < 2):
            return [wanted]
        bytes_max = options.max_bytes_per_partition or None
        runs = self.ledgers(name, wanted)
        if repeatable and bytes_max:
            entries = sum(run.entries for run in clip(runs, wanted))
            size = self._first_size(name, wanted) if entries * ENTRY_BYTES_MAX > bytes_max else 0.0
            runs = [replace(run, entry_bytes=size) for run in runs]
        return split(runs, wanted, max(1, pieces), bytes_max)

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


def partition_of(name: str) -> int:
    return TopicName.parse(name).partition_index
