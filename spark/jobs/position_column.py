"""The order of messages inside a partition, as a column that sorts: for Spark a message id is opaque bytes."""

from inspect import signature

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.source.ranges.bounds import Bound
from pulsar_proto.ids import signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb

PLAIN: dict[str, bool] = {"useArrow": False} if "useArrow" in signature(F.udf).parameters else {}
"""pyspark 3.4 has no such parameter, and no other way."""


def sortable(message_id: bytes | None) -> str | None:
    """Ledger, entry and batch index in digits of fixed width."""
    if message_id is None:
        return None
    parsed = pb.MessageIdData.FromString(bytes(message_id))
    return digits(Bound(signed64(parsed.ledgerId), signed64(parsed.entryId), max(parsed.batch_index, 0)))


def digits(bound: Bound) -> str:
    return f"{bound.ledger:020d}{bound.entry:020d}{bound.batch_index:010d}"


def position(column: str) -> Column:
    """Of a column with MessageIdData's bytes."""
    return F.udf(sortable, "string", **PLAIN)(F.col(column))
