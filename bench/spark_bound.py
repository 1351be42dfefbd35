"""What Spark and the wire alone cost a reader: a source that receives and checks the entries of a topic as ours does,
and gives Spark columns that were made beforehand. No reader in Python that is right can be faster."""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.data_source import PulsarDataSource, PulsarReader
from magnetar.spark.source.range_reader import ReadTask

WAIT_SECONDS = 60


class PreparedSource(PulsarDataSource):
    """`format("pulsar")` with the columns of the first messages of a task in place of those of all the others."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return PreparedReader(schema, dict(self.options))


class PreparedReader(PulsarReader):
    """Plans the tasks that ours has."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields as many rows as the task's range has messages. Raises RuntimeError when the entries stop coming."""
        assert isinstance(partition, ReadTask)
        prepared = next(super().read(partition))
        address, wanted = self.options.address, partition.wanted
        client = PulsarClient(address.service_url, address.login)
        reader = PartitionReader(client, partition.topic, wanted.after, ReaderSettings(permits=self.options.permits))
        ledger, entry = wanted.upto[:2]
        place = wanted.after[:2]
        while place < (ledger, entry):
            block = reader.read_block(time.monotonic() + WAIT_SECONDS)
            if block is None:
                raise RuntimeError(f"{partition.topic}: nothing came behind {place}")
            is_inside = (block.ledgers < ledger) | ((block.ledgers == ledger) & (block.entries <= entry))
            left, place = int(block.permits()[is_inside].sum()), block.place(-1)
            while left:
                rows = prepared.slice(0, left)
                left -= len(rows)
                yield rows
        reader.close()
        client.close()
