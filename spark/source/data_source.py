"""`format("pulsar")` in pure Python: the classes that Spark calls.

These classes call the planner, readers and writers. Spark pickles their objects by the module's name and creates them
again in other processes, so they hold nothing but options, columns and bytes until they are used. The interface is that
of `pyspark.sql.datasource` in Spark 4.1 and newer.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from magnetar.spark.source.columns.metadata_columns import METADATA_FIELDS, PARTITION_FIELD, RAW_FIELDS
from magnetar.spark.source.columns.row_filters import taken_and_left
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.narrowing import Narrowing
from magnetar.spark.source.options import LATEST, BadOption, read_options, write_options
from magnetar.spark.source.origin import made_anywhere
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import Range
from magnetar.spark.source.reading import TopicReading, tasks_of
from magnetar.spark.source.row_writer import write_rows
from magnetar.spark.source.stream_reader import PulsarStreamReader
from magnetar.spark.source.worker_relief import relieve_worker

CORES_VARIABLE = "MAGNETAR_SPARK_CORES"
"""The environment variable by which `register` tells the workers that plan queries how many tasks the cluster runs at
once."""


class PulsarDataSource(DataSource):
    """The data source. A user registers it with `spark.dataSource.register(PulsarDataSource)` and then uses
    `format("pulsar")`."""

    @classmethod
    def name(cls) -> str:
        return "pulsar"

    def __reduce__(self) -> tuple[Any, ...]:
        """Spark makes the source in one worker of the driver and hands it to others. The worker that plans a stream
        gets no files of `addPyFile` and `addArtifacts` (PythonStreamingSourceRunner), so the source brings along where
        they are."""
        return made_anywhere(type(self), self.options)

    def schema(self) -> StructType:
        """Returns the value columns of the topics' schema, and then the metadata columns, or those of them that the
        option `columns` names. Raises BadOption when it names one that is not there."""
        options = read_options(self.options, streaming=_may_stream(self.options))
        planner = Planner(options)
        try:
            planner.partitions()  # a missing topic raises an error now, and not when the query runs
            values = ValueColumns(planner.schema(), lambda version: None, options.bad_values)
        finally:
            planner.close()
            relieve_worker()
        if not options.columns:
            return StructType([*values.fields, *METADATA_FIELDS, *(RAW_FIELDS if options.raw_columns else [])])
        known = {field.name: field for field in (*values.fields, *METADATA_FIELDS, *RAW_FIELDS, PARTITION_FIELD)}
        if unknown := [name for name in options.columns if name not in known]:
            raise BadOption(f"option columns: {', '.join(unknown)} is unknown; there are {', '.join(known)}")
        return StructType([known[name] for name in options.columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        return PulsarReader(schema, _for_all_cores(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        return PulsarStreamReader(schema, dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise ValueError("mode overwrite: a topic can only be appended to")
        return PulsarWriter(schema, dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return PulsarStreamWriter(schema, dict(self.options))


def _for_all_cores(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a batch query, which is read by all cores of the cluster unless a user says how finely it
    is split. A streaming query gets no such default: a batch that is repeated after a restart needs the same tasks,
    and the cluster may have another number of cores by then."""
    is_said = {"cores", "minpartitions"} & {name.lower() for name in options}
    cores = {} if is_said or CORES_VARIABLE not in os.environ else {"cores": os.environ[CORES_VARIABLE]}
    return {**options, **cores}


def _may_stream(options: Mapping[str, str]) -> bool:
    """Returns whether `schema` checks the options as those of a streaming query. Spark asks for the schema without
    saying whether the query is a batch query or a streaming query, and some options are allowed in one kind only. So
    the options count as a streaming query's when they begin at `latest`, which a batch query may not do, or when they
    set no end, which a streaming query may not have. Otherwise they count as a batch query's."""
    lower = {name.lower(): value for name, value in options.items()}
    return str(lower.get("startingoffsets", "")).lower() == LATEST or not {"endingoffsets", "endingtime"} & set(lower)


class FilterTaker:
    """What Spark calls as a reader's `pushFilters`, where `spark.sql.python.filterPushdown.enabled` is true.

    Where that setting is false, which is Spark's default, Spark fails queries whose reader has a `pushFilters` of its
    own (`DATA_SOURCE_PUSHDOWN_DISABLED` in pyspark.sql.worker.plan_data_source_read). It looks at the method's function
    to find that out. This object shows the base class's function there, because our queries work either way.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, take: Callable[[list[Filter]], list[Filter]]) -> None:
        self._take = take

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._take(filters)


class PulsarReader(TopicReading, DataSourceReader):
    """Reads the messages of a batch query, whose range is fixed when the query is planned."""

    def __init__(self, schema: StructType, given: dict[str, str]) -> None:
        super().__init__(schema, given, streaming=False)

    @property
    def pushFilters(self) -> "FilterTaker":  # noqa: N802, Spark's name
        return FilterTaker(self.take_filters)

    def take_filters(self, filters: list[Filter]) -> list[Filter]:
        """Takes the conditions that the data source applies itself, and returns the others."""
        self._filters, left = taken_and_left(filters, self._columns.fieldNames())
        return left

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self.options)
        try:
            names = planner.partitions()
            planner.check_names(names)
            narrowing = Narrowing(planner, self._filters, self.options.disorder_ms)
            wanted = {name: Range(planner.start(name), planner.end(name)) for name in names if narrowing.reads(name)}
            parts = [(name, part) for name, each in wanted.items() for part in narrowing.parts(name, each)]
            return tasks_of(planner, parts, repeatable=False, may_lack=narrowing.is_by_id)
        finally:
            planner.close()
            relieve_worker()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_task(partition)


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
