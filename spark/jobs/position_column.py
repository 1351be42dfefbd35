"""A column by which Spark sorts the messages of a partition into their order. Message ids do not serve for this,
because for Spark they are opaque bytes."""

from inspect import signature

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.source.ranges.bounds import Bound
from pulsar_proto.ids import signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb

PLAIN: dict[str, bool] = {"useArrow": False} if "useArrow" in signature(F.udf).parameters else {}
"""Without Arrow, Spark calls a Python function with plain Python values. pyspark 3.4 never uses Arrow here, and `udf`
has no such parameter there."""


def sortable(message_id: bytes | None) -> str | None:
    """Returns the sortable text (`digits`) of an id that is given as the bytes of MessageIdData, or None when there is
    no id."""
    if message_id is None:
        return None
    parsed = pb.MessageIdData.FromString(bytes(message_id))
    return digits(Bound(signed64(parsed.ledgerId), signed64(parsed.entryId), max(parsed.batch_index, 0)))


def digits(bound: Bound) -> str:
    """Returns ledger, entry and batch index in digits of fixed width."""
    return f"{bound.ledger:020d}{bound.entry:020d}{bound.batch_index:010d}"


def position(column: str) -> Column:
    """Returns the sortable positions of a column that has the bytes of MessageIdData."""
    return F.udf(sortable, "string", **PLAIN)(F.col(column))
