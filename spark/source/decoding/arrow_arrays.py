"""Makes Arrow columns of numpy's numbers, and the other way round, out of the columns' buffers.

pyarrow's own functions for that (`pa.array`, `pa.scalar`, `Array.to_numpy`) import pandas when it is installed, to ask
whether they got an object of pandas. The import takes each Python worker of Spark 0.4 s of CPU before its first row. So
everything that all topics need is made here; values that only Python objects can give go through `pa.array`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[Any]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


def column_of(numbers: Numbers, present: Bools | None = None) -> pa.Array:
    """Returns the numbers as a column, null where not `present`. The column shares the memory of `numbers`, which must
    not change any more."""
    buffers = [_validity(present), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), buffers)


def bools_column(truths: Bools, present: Bools | None = None) -> pa.BooleanArray:
    """Returns truths as a column, null where not `present`."""
    return pa.Array.from_buffers(pa.bool_(), len(truths), [_validity(present), _bits(truths)])


def repeated(value: bytes, count: int, kind: pa.DataType) -> pa.Array:
    """Returns a column with the same value in each of `count` rows; `kind` is string or binary."""
    borders = np.array([0, len(value)], np.int32)
    one = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(borders), pa.py_buffer(value)])
    return one.take(column_of(np.zeros(count, np.int64)))


def present_rows(column: pa.Array) -> Bools:
    """Returns which rows of a column are not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    end = column.offset + len(column)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(np.bool_)


def _validity(present: Bools | None) -> pa.Buffer | None:
    return None if present is None or present.all() else _bits(present)


def _bits(truths: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
