"""The reader of streaming queries: where batches begin and end, and their tasks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from magnetar.spark.source.admission import Admission
from magnetar.spark.source.client.named_subscription import NamedSubscription
from magnetar.spark.source.lag import Lag
from magnetar.spark.source.options import LATEST
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range, bounds_from_json, bounds_to_json
from magnetar.spark.source.ranges.continuity_rules import DataLoss
from magnetar.spark.source.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from magnetar.spark.source.reading import TopicReading, tasks_of
from magnetar.spark.source.worker_relief import end_quietly
from pulsar_proto.errors import TopicNotFound


class PulsarStreamReader(TopicReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the messages of a streaming query. An offset maps each partition to the last message that the query has
    taken in.

    From Spark 4.2 on Spark says where the query is and which limit holds, asks for the end of an available-now run
    before the run begins, and shows in its progress reports how far the query is behind. Spark 4.1 does none of that,
    so the reader remembers its last answer. After a restart Spark 4.1 first plans an empty range at the checkpoint's
    offset, from which the reader learns where the query is.
    """

    def __init__(self, schema: StructType, given: dict[str, str]) -> None:
        super().__init__(schema, given, streaming=True)
        end_quietly()
        self._known: dict[str, Bound] = {}
        self._begin: dict[str, Bound] = {}
        self._unacknowledged: dict[str, Bound] = {}
        self._latest: dict[str, Bound] = {}
        """The last message of each partition when the last batch was planned."""
        self._final: dict[str, Bound] | None = None
        """Where an available-now run ends; None for other runs."""

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.options)

    @cached_property
    def _admission(self) -> Admission:
        return Admission(self._planner, self.options)

    @cached_property
    def _lag(self) -> Lag:
        return Lag(self._planner, self._admission)

    @cached_property
    def _subscription(self) -> NamedSubscription | None:
        name = self.options.subscription
        return NamedSubscription(self._planner.client, name) if name else None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802, Spark's name
        names = self._planner.partitions()
        self._planner.check_names(names)
        self._protect(names, latest=self.options.starting == LATEST)
        self._begin = {name: self._planner.start(name) for name in names}
        self._known = dict(self._begin)
        return bounds_to_json(self._begin)

    def _protect(self, names: Sequence[str], *, latest: bool) -> None:
        """Makes sure that the named subscription, if there is one, keeps the unread messages of these partitions."""
        if self._subscription is not None:
            for name in names:
                self._subscription.mark_delete(name, latest=latest)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, Spark's name
        """Returns the first of the limits in the options. `latestOffset` keeps all of them: Spark's Python API cannot
        tell of more than one, and asks only whether there is any."""
        options = self.options
        if options.max_messages:
            return ReadMaxRows(options.max_messages)
        if options.max_bytes:
            return ReadMaxBytes(options.max_bytes)
        return ReadMinRows(options.min_messages) if options.min_messages else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        """Fixes where the run ends: at what is the last message of each partition now."""
        self._final = {}
        for name in self._planner.partitions():
            try:
                self._final[name] = self._planner.last(name)
            except TopicNotFound:  # the topic was deleted after it was listed
                self._planner.gone([name])

    def latestOffset(  # noqa: N802, Spark's name
        self, start: Mapping[str, str] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, str]:
        """Returns the end of the next batch, within the limits of the options unless `limit` is ReadAllAvailable.
        `start` is the last message that the query has taken in."""
        self._acknowledge()
        if start:
            self._known = bounds_from_json(start)
        planner = self._planner
        names = planner.partitions() if self._final is None else sorted(self._final)
        planner.gone(sorted(set(self._known) - set(names)))
        wanted = {}
        for name in names:
            try:
                wanted[name] = self._what_came(name)
            except TopicNotFound:  # the topic was deleted after it was listed
                planner.gone([name])
        self._latest = {name: each.upto for name, each in wanted.items()}
        if isinstance(limit, ReadAllAvailable):
            ends = self._latest
        else:
            ends = self._admission.ends(wanted, may_wait=self._final is None)
        self._known = {**self._known, **ends}
        return bounds_to_json(self._known)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802, Spark's name
        """Returns the last message of each partition, and how far the batch that was planned last is behind."""
        return self._lag.report(self._known, self._latest) if self._latest else None

    def _what_came(self, name: str) -> Range:
        """Returns the messages of a partition that the query has not read yet, as a range that ends with the
        partition's last message. Raises TopicNotFound, and DataLoss when the partition ends before the last message
        that the query has read. Without failOnDataLoss such a query goes on behind what is the last message now."""
        after = self._known.get(name)
        if after is None:  # a partition that appears while the query runs is read from its beginning
            is_new = bool(self._known)
            if is_new:
                self._planner.check_schema(name, self._schema)
            self._protect([name], latest=not is_new and self.options.starting == LATEST)
            after = self._planner.start(name, is_new=is_new)
        last = self._planner.last(name) if self._final is None else self._final[name]
        if last.is_before_all or last.entry < 0 or after[:2] <= last[:2]:
            return Range(after, max(last, after))
        if self._final is not None and after[:2] <= self._planner.last(name)[:2]:
            return Range(after, after)  # the query began, or a batch was planned, after the run's end was fixed
        if self.options.fail_on_data_loss:
            raise DataLoss(
                f"{name} ends at {last}, but was read up to {after}: it was deleted and made anew, or truncated; "
                "failOnDataLoss=false goes on with what comes"
            )
        return Range(last, last)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Returns the tasks of a batch. When a query's first batch is repeated, Spark asks `initialOffset` for the
        start once more, so partitions that were added meanwhile are in `start` and not in `end`."""
        after, upto = bounds_from_json(start), bounds_from_json(end)
        if after != self._begin and (lost := sorted(set(after) - set(upto))):
            self._planner.gone(lost, "or the checkpoint is of another query")
        self._known |= upto
        if after != upto:
            self._unacknowledged = upto
        wanted = [(name, Range(after.get(name, BEFORE_ALL), bound)) for name, bound in upto.items()]
        return tasks_of(self._planner, wanted, repeatable=True)

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
        if "_admission" in self.__dict__:
            self._admission.close()
        if "_planner" in self.__dict__:
            self._planner.close()
