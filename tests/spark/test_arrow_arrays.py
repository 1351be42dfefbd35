"""Columns made of numpy's numbers are those that pyarrow makes, and nothing imports pandas to make them."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from magnetar.spark.source.decoding.arrow_arrays import bools_column, column_of, present_rows, repeated
from pulsar_proto.pb import pulsar_api_pb2 as pb

PRESENT = np.array([True, False, True, True, False, True, True, False, True, True])
NUMBERS = np.arange(10)

READ = """
import sys
from pyspark.sql.types import StructType
from magnetar.spark.source.columns.batch_builder import BatchBuilder
from magnetar.spark.source.columns.metadata_columns import METADATA_FIELDS, PARTITION_FIELD, RAW_FIELDS
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.range_reader import RangeReader, ReadTask
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.continuity_rules import Continuity
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch, build_payload
from tests.spark.sent_blocks import LEDGER, TOPIC, Played, sent_block

def sent(number):
    meta = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1700000000000, event_time=number + 1)
    meta.partition_key = "key"
    meta.properties.add(key="n", value="1")
    meta.properties.add(key="m", value="2")
    if number < 50:
        return build_payload(meta, bytes(8))
    single = pb.SingleMessageMetadata(payload_size=8, partition_key="key")
    meta.num_messages_in_batch = 3
    return build_payload(meta, build_batch([(single, bytes(8))] * 3))

upto = Bound(LEDGER, 99)
values = ValueColumns(pb.Schema(name="s", type=int(sys.argv[1])), lambda version: None)
columns = StructType([*values.fields, *METADATA_FIELDS, *RAW_FIELDS, PARTITION_FIELD])
reader = RangeReader(
    Played([sent_block([sent(number) for number in range(100)])]),
    ReadTask(TOPIC, str(BEFORE_ALL), str(upto)),
    BatchBuilder(columns, values, TOPIC),
    Continuity(TOPIC, Range(BEFORE_ALL, upto), protected=False, sparse=False),
    poll_timeout_seconds=1.0,
    fail_on_data_loss=True,
)
print(sum(batch.num_rows for batch in reader.batches()), "pandas" in sys.modules)
"""


@pytest.mark.parametrize("kind", ["<i8", "<i4", "<i2", "i1", "<f8", "<f4"])
def test_numbers_become_the_column_that_pyarrow_makes(kind: str) -> None:
    numbers = NUMBERS.astype(kind)
    assert column_of(numbers).equals(pa.array(numbers))
    assert column_of(numbers, PRESENT).equals(pa.array(numbers, mask=~PRESENT))
    assert column_of(numbers[::2]).equals(pa.array(numbers[::2]))
    assert column_of(numbers, PRESENT | True).null_count == 0


def test_truths_become_the_column_that_pyarrow_makes() -> None:
    truths = NUMBERS % 3 == 0
    assert bools_column(truths).equals(pa.array(truths))
    assert bools_column(truths, PRESENT).equals(pa.array(truths, mask=~PRESENT))


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_repeated_value_is_in_each_row(count: int) -> None:
    assert repeated("tópic".encode(), count, pa.string()).equals(pa.array(["tópic"] * count, pa.string()))
    assert repeated(b"", count, pa.binary()).equals(pa.array([b""] * count, pa.binary()))


def test_present_rows_are_those_that_are_not_null_in_slices_too() -> None:
    column = pa.array([b"x" if each else None for each in PRESENT], pa.binary())
    for start in range(len(column)):
        assert present_rows(column[start:]).tolist() == PRESENT[start:].tolist()
        assert present_rows(column[:start]).tolist() == PRESENT[:start].tolist()
    assert present_rows(pa.array([b"x", b"y"])).tolist() == [True, True]


@pytest.mark.process
@pytest.mark.parametrize("schema", ["None", "Int64", "Double", "Timestamp"])
def test_a_worker_reads_without_importing_pandas(schema: str) -> None:
    """The same process would import pandas at its first `pa.array`."""
    code = [sys.executable, "-c", READ, str(pb.Schema.Type.Value(schema))]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", "False"]
