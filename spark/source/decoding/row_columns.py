"""Decoded messages as Arrow columns, before the topic's schema is applied. Both ways of decoding entries end here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.spark.source.decoding.arrow_arrays import column_of
from magnetar.spark.source.decoding.row_decoder import DecodedRows
from magnetar.spark.source.decoding.wire_scan import Ints

TIME = pa.timestamp("us", tz="UTC")
EVENT_TIME_MAX = (2**63 - 1) // 1000
"""The last event time that there is a column value for, in milliseconds: Spark's timestamps are microseconds in 64
bits."""
MAP = pa.map_(pa.string(), pa.string())


@dataclass(slots=True)
class RowColumns:
    """The columns of some messages, all of equal length. `versions` and `ordering_keys` are None when no message has a
    version or an ordering key, and `ids` is None when the query does not ask for ids. Other columns that the query does
    not ask for may be empty: nulls, or empty maps."""

    values: pa.BinaryArray
    keys: pa.BinaryArray
    publish_times: pa.Array
    event_times: pa.Array
    properties: pa.MapArray
    """A message without properties has an empty map, as in the published connector."""
    ids: pa.BinaryArray | None
    versions: pa.BinaryArray | None
    """The versions of the messages' schemas, empty for a message without one."""
    ordering_keys: pa.BinaryArray | None
    size: int
    """The bytes of all values together."""

    def __len__(self) -> int:
        return len(self.values)

    def where(self, truth: pa.BooleanArray) -> "RowColumns":
        """Returns the rows for which `truth` is true, and not false or null."""
        if truth.true_count == len(self):
            return self
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "size"}
        kept = {name: None if column is None else column.filter(truth) for name, column in columns.items()}
        return RowColumns(**kept, size=pc.sum(pc.binary_length(kept["values"])).as_py() or 0)


ALL_PARTS = frozenset(field.name for field in fields(RowColumns))


def columns_of(rows: DecodedRows) -> RowColumns:
    """Returns the columns of rows that were decoded one by one."""
    published = _numbers(rows.publish_times)
    event_times = _numbers([0 if time is None else time for time in rows.event_times])
    properties = (
        pa.array([list(pairs or ()) for pairs in rows.properties], MAP) if rows.has_properties else no_maps(len(rows))
    )
    return RowColumns(
        pa.array(rows.values, pa.binary()),
        pa.array(rows.keys, pa.binary()),
        times(published),
        moments(event_times),
        properties,
        pa.array(rows.ids, pa.binary()) if len(rows.ids) == len(rows) else None,
        pa.array(rows.schema_versions, pa.binary()) if any(rows.schema_versions) else None,
        pa.array(map(rows.ordering_keys.get, range(len(rows))), pa.binary()) if rows.ordering_keys else None,
        rows.size,
    )


def _numbers(milliseconds: list[int]) -> Ints:
    return np.array(milliseconds, np.uint64).view(np.int64)


def times(milliseconds: Ints) -> pa.Array:
    """Returns milliseconds since the epoch as Spark's timestamps. A time beyond the last timestamp becomes the last
    timestamp."""
    micros = milliseconds.view(np.uint64).clip(max=np.uint64(EVENT_TIME_MAX)).view(np.int64) * 1000
    return column_of(micros).view(TIME)


def moments(milliseconds: Ints) -> pa.Array:
    """Returns event times as Spark's timestamps: null for 0, which means none, and for a time that no timestamp can
    hold. One message with such a time must not make all queries fail."""
    held = (milliseconds > 0) & (milliseconds <= EVENT_TIME_MAX)
    return column_of(np.where(held, milliseconds, 0) * 1000, held).view(TIME)


def no_maps(count: int) -> pa.MapArray:
    nothing = pa.nulls(0, pa.string())
    return pa.MapArray.from_arrays(column_of(np.zeros(count + 1, np.int32)), nothing, nothing)


def joined(pieces: Sequence[RowColumns]) -> RowColumns:
    """Returns the rows of all pieces as one piece. The caller passes at least one piece."""
    if len(pieces) == 1:
        return pieces[0]
    ids = None if pieces[0].ids is None else pa.concat_arrays([piece.ids for piece in pieces])
    return RowColumns(
        pa.concat_arrays([piece.values for piece in pieces]),
        pa.concat_arrays([piece.keys for piece in pieces]),
        pa.concat_arrays([piece.publish_times for piece in pieces]),
        pa.concat_arrays([piece.event_times for piece in pieces]),
        pa.concat_arrays([piece.properties for piece in pieces]),
        ids,
        _rare([piece.versions for piece in pieces], pieces, b""),
        _rare([piece.ordering_keys for piece in pieces], pieces, None),
        sum(piece.size for piece in pieces),
    )


def _rare(
    columns: Sequence[pa.BinaryArray | None], pieces: Sequence[RowColumns], nothing: bytes | None
) -> pa.BinaryArray | None:
    """Joins a column that some pieces lack. The rows of a piece without the column get the value `nothing`. Returns
    None when all pieces lack the column."""
    if all(column is None for column in columns):
        return None
    return pa.concat_arrays(
        [
            pa.array([nothing] * len(piece), pa.binary()) if column is None else column
            for column, piece in zip(columns, pieces, strict=True)
        ]
    )
