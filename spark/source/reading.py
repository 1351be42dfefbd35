"""What the readers of batch and streaming queries share: the topics' schema, and the reading of one task."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.columns.batch_builder import BatchBuilder
from magnetar.spark.source.columns.row_filters import RowFilters
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.options import ReadOptions, read_options
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.range_reader import RangeReader, ReadTask
from magnetar.spark.source.ranges.bounds import Range
from magnetar.spark.source.ranges.continuity_rules import Continuity
from magnetar.spark.source.worker_relief import relieve_worker
from pulsar_proto.pb import pulsar_api_pb2 as pb

LOOKUP_PERMITS = 100
"""How many messages are under way at most for a task that reads single messages by their ids."""


class TopicReading:
    """The base class of the readers of batch and streaming queries. A reader is made on the driver, where it asks for
    the topics' schema, and is pickled to the executors, where `read_task` reads."""

    def __init__(self, schema: StructType, given: dict[str, str], *, streaming: bool) -> None:
        self._columns = schema
        self._given = given
        self._streaming = streaming
        self._filters = RowFilters()
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
        kept = ("_columns", "_given", "_streaming", "_schema", "_filters")
        return {name: value for name, value in self.__dict__.items() if name in kept}

    def _values(self, client: PulsarClient | None, topic: str) -> ValueColumns:
        schema = None if self._schema is None else pb.Schema.FromString(self._schema)

        def lookup(version: bytes) -> pb.Schema | None:
            assert client is not None
            return client.persist(lambda: client.schema(topic, version))

        return ValueColumns(schema, lookup, self.options.bad_values, self._columns.fieldNames())

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
            sparse = options.read_compacted or task.may_lack
            continuity = Continuity(task.topic, wanted, protected=protected, sparse=sparse)
            probe = continuity.probe
            permits = min(options.permits, LOOKUP_PERMITS) if task.may_lack else options.permits
            settings = ReaderSettings(options.reader_name, permits, options.read_compacted)
            reader = PartitionReader(client, task.topic, wanted.after if probe is None else probe.before(), settings)
            yield from RangeReader(
                reader,
                task,
                builder,
                continuity,
                self._filters,
                poll_timeout_seconds=options.poll_timeout_seconds,
                fail_on_data_loss=options.fail_on_data_loss,
            ).batches()
        finally:
            client.close()
            relieve_worker()


def tasks_of(
    planner: Planner, wanted: Iterable[tuple[str, Range]], *, repeatable: bool, may_lack: bool = False
) -> list[InputPartition]:
    """Returns the tasks that read the `wanted` ranges of partitions. A streaming query asks for `repeatable` ones:
    whenever the same ranges are planned, the tasks are the same. A sink that drops repeated rows needs equal tasks,
    because it recognises rows by the tasks' numbers. With `may_lack` the ranges may lie where no messages are."""
    busy = [(name, each) for name, each in wanted if not each.is_empty]
    tasks: list[InputPartition] = []
    for name, each in busy:
        parts = planner.tasks(name, each, len(busy), repeatable=repeatable)
        tasks += [ReadTask(name, str(part.after), str(part.upto), may_lack) for part in parts]
    return tasks
