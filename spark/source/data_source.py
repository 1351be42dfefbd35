"""`format("pulsar")` in pure Python: the classes that Spark calls.

These classes call the planner, readers and writers. Spark pickles their objects by the module's name and creates them
again in other processes, so they hold nothing but options, columns and bytes until they are used. The interface is that
of `pyspark.sql.datasource` in Spark 4.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from magnetar.spark.source.client.named_subscription import NamedSubscription
from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.columns.batch_builder import BatchBuilder
from magnetar.spark.source.columns.metadata_columns import METADATA_FIELDS, RAW_FIELDS
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.options import LATEST, ReadOptions, read_options, write_options
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.range_reader import RangeReader, ReadTask
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range, bounds_from_json, bounds_to_json
from magnetar.spark.source.ranges.continuity_rules import Continuity, DataLoss
from magnetar.spark.source.row_writer import write_rows
from magnetar.spark.source.worker_relief import relieve_worker
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.pb import pulsar_api_pb2 as pb


class PulsarDataSource(DataSource):
    """The data source. A user registers it with `spark.dataSource.register(PulsarDataSource)` and then uses
    `format("pulsar")`."""

    @classmethod
    def name(cls) -> str:
        return "pulsar"

    def schema(self) -> StructType:
        """Returns the value columns of the topics' schema, and then the metadata columns."""
        options = read_options(self.options, streaming=_may_stream(self.options))
        planner = Planner(options)
        try:
            planner.partitions()  # a missing topic raises an error now, and not when the query runs
            values = ValueColumns(planner.schema(), lambda version: None, options.bad_values)
        finally:
            planner.close()
            relieve_worker()
        return StructType([*values.fields, *METADATA_FIELDS, *(RAW_FIELDS if options.raw_columns else [])])

    def reader(self, schema: StructType) -> DataSourceReader:
        return PulsarReader(schema, dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        return PulsarStreamReader(schema, dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise ValueError("mode overwrite: a topic can only be appended to")
        return PulsarWriter(schema, dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return PulsarStreamWriter(schema, dict(self.options))


def _may_stream(options: Mapping[str, str]) -> bool:
    """Returns whether `schema` checks the options as those of a streaming query. Spark asks for the schema without
    saying whether the query is a batch query or a streaming query, and some options are allowed in one kind only. So
    the options count as a streaming query's when they begin at `latest`, which a batch query may not do, or when they
    set no end, which a streaming query may not have. Otherwise they count as a batch query's."""
    lower = {name.lower(): value for name, value in options.items()}
    return str(lower.get("startingoffsets", "")).lower() == LATEST or not {"endingoffsets", "endingtime"} & set(lower)


class _Reading:
    """The base class of the readers of batch and streaming queries. A reader is made on the driver, where it asks for
    the topics' schema, and is pickled to the executors, where `read_task` reads."""

    def __init__(self, schema: StructType, given: dict[str, str], *, streaming: bool) -> None:
        self._columns = schema
        self._given = given
        self._streaming = streaming
        planner = Planner(self.options)
        try:
            found = planner.schema()
        finally:
            planner.close()
        self._schema = None if found is None else found.SerializeToString()
        BatchBuilder(schema, self._values(None, ""), "")  # an unknown column raises an error before any task starts

    @cached_property
    def options(self) -> ReadOptions:
        return read_options(self._given, streaming=self._streaming)

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_columns", "_given", "_streaming", "_schema")
        return {name: value for name, value in self.__dict__.items() if name in kept}

    def _values(self, client: PulsarClient | None, topic: str) -> ValueColumns:
        schema = None if self._schema is None else pb.Schema.FromString(self._schema)

        def lookup(version: bytes) -> pb.Schema | None:
            assert client is not None
            return client.persist(lambda: client.schema(topic, version))

        return ValueColumns(schema, lookup, self.options.bad_values)

    def read_task(self, task: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. For a query without any task Spark passes None, and from Spark 4.3 on a bare
        InputPartition. In both cases there are no rows."""
        if task is None or type(task) is InputPartition:
            return
        assert isinstance(task, ReadTask)
        options = self.options
        client = PulsarClient(options.address.service_url, options.address.login)
        try:
            wanted = task.wanted
            builder = BatchBuilder(self._columns, self._values(client, task.topic), task.topic)
            protected = bool(options.subscription) and self._streaming
            continuity = Continuity(task.topic, wanted, protected=protected, sparse=options.read_compacted)
            probe = continuity.probe
            settings = ReaderSettings(options.reader_name, options.permits, options.read_compacted)
            reader = PartitionReader(client, task.topic, wanted.after if probe is None else probe.before(), settings)
            yield from RangeReader(
                reader,
                task,
                builder,
                continuity,
                poll_timeout_seconds=options.poll_timeout_seconds,
                fail_on_data_loss=options.fail_on_data_loss,
            ).batches()
        finally:
            client.close()
            relieve_worker()


def _tasks(planner: Planner, wanted: Mapping[str, Range], *, repeatable: bool) -> list[InputPartition]:
    """Returns the tasks that read the `wanted` ranges. A streaming query asks for `repeatable` ones: whenever the same
    ranges are planned, the tasks are the same. A sink that drops repeated rows needs equal tasks, because it recognises
    rows by the tasks' numbers."""
    busy = {name: each for name, each in wanted.items() if not each.is_empty}
    tasks: list[InputPartition] = []
    for name, each in busy.items():
        parts = planner.tasks(name, each, len(busy), repeatable=repeatable)
        tasks += [ReadTask(name, str(part.after), str(part.upto)) for part in parts]
    return tasks


class PulsarReader(_Reading, DataSourceReader):
    """Reads the messages of a batch query, whose range is fixed when the query is planned."""

    def __init__(self, schema: StructType, given: dict[str, str]) -> None:
        super().__init__(schema, given, streaming=False)

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self.options)
        try:
            names = planner.partitions()
            planner.check_ids(names)
            wanted = {name: Range(planner.start(name), planner.end(name)) for name in names}
            return _tasks(planner, wanted, repeatable=False)
        finally:
            planner.close()
            relieve_worker()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_task(partition)


class PulsarStreamReader(_Reading, DataSourceStreamReader):
    """Reads the messages of a streaming query. An offset maps each partition to the last message that the query has
    taken in.

    Spark 4.1 asks for the latest offset without saying where the query is, so the reader remembers its last answer.
    After a restart Spark first plans an empty range at the checkpoint's offset, from which the reader learns where the
    query is.
    """

    def __init__(self, schema: StructType, given: dict[str, str]) -> None:
        super().__init__(schema, given, streaming=True)
        self._known: dict[str, Bound] = {}
        self._begin: dict[str, Bound] = {}
        self._unacknowledged: dict[str, Bound] = {}

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.options)

    @cached_property
    def _subscription(self) -> NamedSubscription | None:
        name = self.options.subscription
        return NamedSubscription(self._planner.client, name) if name else None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802, Spark's name
        names = self._planner.partitions()
        self._planner.check_ids(names)
        self._protect(names, latest=self.options.starting == LATEST)
        self._begin = {name: self._planner.start(name) for name in names}
        self._known = dict(self._begin)
        return bounds_to_json(self._begin)

    def _protect(self, names: Sequence[str], *, latest: bool) -> None:
        """Makes sure that the named subscription, if there is one, keeps the unread messages of these partitions."""
        if self._subscription is not None:
            for name in names:
                self._subscription.mark_delete(name, latest=latest)

    def latestOffset(  # noqa: N802, Spark's name
        self, start: Mapping[str, str] | None = None, limit: object = None
    ) -> dict[str, str]:
        """Returns the end of the next batch, within the limits. From Spark 4.2 on `start` is the last message that the
        query has taken in."""
        self._acknowledge()
        if start:
            self._known = bounds_from_json(start)
        planner = self._planner
        names = planner.partitions()
        planner.gone(sorted(set(self._known) - set(names)))
        wanted = {}
        for name in names:
            try:
                wanted[name] = self._what_came(name)
            except TopicNotFound:  # the topic was deleted after it was listed
                planner.gone([name])
        ends = planner.capped(wanted)
        self._known = {**self._known, **ends}
        return bounds_to_json(self._known)

    def _what_came(self, name: str) -> Range:
        """Returns the messages of a partition that the query has not read yet, as a range that ends with the
        partition's last message. Raises TopicNotFound, and DataLoss when the partition ends before the last message
        that the query has read."""
        after = self._known.get(name)
        if after is None:  # a partition that appears while the query runs is read from its beginning
            is_new = bool(self._known)
            if is_new:
                self._planner.check_schema(name, self._schema)
            self._protect([name], latest=not is_new and self.options.starting == LATEST)
            after = self._planner.start(name, is_new=is_new)
        return Range(after, self._last(name, after))

    def _last(self, name: str, after: Bound) -> Bound:
        """Returns the partition's last message, or `after` when no message came behind `after`. Raises DataLoss when
        the topic ends before the last message that was read, unless the options allow losses."""
        last = self._planner.last(name)
        if not last.is_before_all and last[:2] < after[:2] and last.entry >= 0 and self.options.fail_on_data_loss:
            raise DataLoss(
                f"{name} ends at {last}, but was read up to {after}: it was deleted and made anew, or truncated; "
                "failOnDataLoss=false goes on with what comes"
            )
        return max(last, after)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Returns the tasks of a batch. When a query's first batch is repeated, Spark asks `initialOffset` for the
        start once more, so partitions that were added meanwhile are in `start` and not in `end`."""
        after, upto = bounds_from_json(start), bounds_from_json(end)
        if after != self._begin and (lost := sorted(set(after) - set(upto))):
            self._planner.gone(lost, "or the checkpoint is of another query")
        self._known |= upto
        if after != upto:
            self._unacknowledged = upto
        wanted = {name: Range(after.get(name, BEFORE_ALL), bound) for name, bound in upto.items()}
        return _tasks(self._planner, wanted, repeatable=True)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_task(partition)

    def commit(self, end: dict[str, str]) -> None:
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledges the batch that was planned last. That batch is in Spark's commit log by now, because Spark
        writes the log before it asks for the next batch or calls `commit`."""
        done, self._unacknowledged = self._unacknowledged, {}
        if self._subscription is not None:
            for name, bound in done.items():
                try:
                    self._subscription.acknowledge(name, bound)
                except TopicNotFound:  # `latestOffset` decides whether the loss of the topic is an error
                    self._subscription.forget(name)

    def stop(self) -> None:
        if "_subscription" in self.__dict__ and self._subscription is not None:
            self._subscription.close()
        if "_planner" in self.__dict__:
            self._planner.close()


class PulsarWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query: each row at least once, or exactly once when `producerName` is given and the
    topic deduplicates."""

    def __init__(self, schema: StructType, given: dict[str, str]) -> None:
        self._columns = schema
        self._options = write_options(given)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(iterator, self._columns, self._options, streaming=False)


class PulsarStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query. Each task has a producer with a name of its own and numbers its rows from
    the batch's number, so a topic with deduplication takes each row once, however often a batch is repeated."""

    def __init__(self, schema: StructType, given: dict[str, str]) -> None:
        self._columns = schema
        self._options = write_options(given)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(iterator, self._columns, self._options, streaming=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, Spark's name
        """Does nothing, because all rows are durable when the tasks end."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing, because rows that were written stay, and are not written again when the batch is repeated."""
