"""Finds where the messages of batches begin and end, by the size fields of their metadata alone.

A message in a batch is `i32 metadata size | SingleMessageMetadata | value`, and the metadata's payload_size is the size
of the value. The walk takes the first field that looks like payload_size. `BlockDecoder` scans all metadata afterwards,
and refuses the batch when payload_size, read properly, says something else.
"""

from itertools import pairwise
from struct import Struct
from struct import error as struct_error
from typing import Any

import numpy as np

from magnetar.spark.source.decoding.wire_scan import Buffer, Ints

_size_at = Struct(">I").unpack_from
_PAYLOAD_SIZE_TAG = 3 << 3
_PROPERTIES_TAG, _KEY_TAG = 1 << 3 | 2, 2 << 3 | 2
_RUN_MIN = 8
"""When at least this many messages of a batch are left, it is worth looking whether they are equally long."""


class Unusual(Exception):
    """Raised for bytes that only `RowDecoder` can read, or recognise as damaged."""


def places_of(buffer: Buffer, starts: Ints, stops: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns, for all messages of batches that stand between `starts` and `stops` and hold `counts` messages, where
    the metadata begins, where the value begins and where the value ends. Raises Unusual.

    Batches of one producer are often laid out alike. Of batches in a row that are equally long and hold equally many
    messages only the first is walked. In the others the messages are taken to lie at the same distances from the start,
    and when a size word is not the expected one, all of them are walked.
    """
    places = BatchPlaces(buffer.data)
    alike = (np.diff(stops - starts) == 0) & (np.diff(counts) == 0)
    borders = [0, *(np.flatnonzero(~alike) + 1).tolist(), len(starts)]
    for first, behind in pairwise(borders):
        if behind - first < _RUN_MIN:
            for at in range(first, behind):
                places.walk(int(starts[at]), int(stops[at]), int(counts[at]))
        else:
            _walk_alike(buffer, places, starts[first:behind], stops[first:behind], int(counts[first]))
    return places.columns()


def _walk_alike(buffer: Buffer, places: "BatchPlaces", starts: Ints, stops: Ints, count: int) -> None:
    pattern = BatchPlaces(buffer.data)
    pattern.walk(int(starts[0]), int(stops[0]), count)
    heads, values, ends = (each - starts[0] + starts[:, None] for each in pattern.columns())
    fits = (buffer.sizes_at(heads - 4) == values - heads).all(axis=1)
    if fits.all():
        places.add(heads.ravel(), values.ravel(), ends.ravel())
        return
    for at in range(len(starts)):
        places.walk(int(starts[at]), int(stops[at]), count)


class BatchPlaces:
    """Walks batches that stand in `data`, one after the other, and collects the places of their messages.

    Messages with equal first bytes and equal length are found in one step. The first bytes that count are the size of
    the metadata and, as the metadata's first field, payload_size. When a message has the length and the first bytes of
    the message before it, numpy compares these bytes at each following multiple of that length. Where the bytes are
    equal, the sizes are equal, so a message begins at each of these places:

        at                  at + size           at + 2 size
        [begin|   value   ] [begin|   value   ] [begin|   value   ] …

    Such a run is kept as whole arrays in `_runs`; messages found one by one wait in lists until `_close_run` puts them
    there.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._runs: list[tuple[Any, Any, Any]] = []
        self._heads: list[int] = []
        self._values: list[int] = []
        self._ends: list[int] = []

    def columns(self) -> tuple[Ints, Ints, Ints]:
        """Returns, for all messages, where the metadata begins, where the value begins and where the value ends."""
        self._close_run()
        heads, values, ends = zip(*self._runs, strict=True) if self._runs else ((), (), ())
        if not heads:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        return np.concatenate(heads), np.concatenate(values), np.concatenate(ends)

    def add(self, heads: Ints, values: Ints, ends: Ints) -> None:
        """Adds messages whose places are known."""
        self._close_run()
        self._runs.append((heads, values, ends))

    def _close_run(self) -> None:
        if self._heads:
            self._runs.append(tuple(np.array(each, np.int64) for each in (self._heads, self._values, self._ends)))  # type: ignore[arg-type]
            self._heads, self._values, self._ends = [], [], []

    def walk(self, start: int, stop: int, count: int) -> None:
        """Walks a batch of `count` messages that stands between two places. Raises Unusual when the batch does not end
        exactly at `stop`."""
        if count <= 0 or count * 5 > stop - start:
            raise Unusual(f"{count} messages in {stop - start} bytes")
        try:
            end = self._walk(start, count)
        except (IndexError, struct_error) as error:
            raise Unusual(str(error)) from error
        if end != stop:
            raise Unusual("the messages of a batch do not end where it does")

    def _walk(self, at: int, count: int) -> int:
        data = self._data
        add_head, add_value, add_end = self._heads.append, self._values.append, self._ends.append
        before, before_size = b"", 0
        left = count
        while left:
            (head_size,) = _size_at(data, at)
            head = at + 4
            value = head + head_size
            tag_at = head
            while data[tag_at] != _PAYLOAD_SIZE_TAG:
                tag_at = self._behind_text(tag_at)
            size = data[tag_at + 1]
            last = tag_at + 2
            if size > 127:
                size &= 127
                shift = 7
                while data[last] > 127 and shift < 28:
                    size |= (data[last] & 127) << shift
                    last += 1
                    shift += 7
                size |= data[last] << shift
                last += 1
            end = value + size
            if left >= _RUN_MIN and tag_at == head:
                begin = data[at:last]
                if end - at == before_size and begin == before:
                    run = self._equal(at, begin, before_size, left)
                    if run > 1:
                        self._close_run()
                        add_head, add_value, add_end = self._heads.append, self._values.append, self._ends.append
                        places = np.arange(at, at + run * before_size, before_size)
                        self._runs.append((places + 4, places + (value - at), places + before_size))
                        at += run * before_size
                        left -= run
                        continue
                before, before_size = begin, end - at
            add_head(head)
            add_value(value)
            add_end(end)
            at = end
            left -= 1
        return at

    def _behind_text(self, at: int) -> int:
        """Returns where the field behind properties or a key begins. Clients write only properties and the key before
        payload_size. Raises Unusual for another field."""
        data = self._data
        if data[at] not in (_PROPERTIES_TAG, _KEY_TAG):
            raise Unusual("metadata in another order")
        size = data[at + 1]
        if size < 128:
            return at + 2 + size
        if data[at + 2] > 127:
            raise Unusual("long properties")
        return at + 3 + (size & 127 | data[at + 2] << 7)

    def _equal(self, at: int, begin: bytes, step: int, most: int) -> int:
        """Returns how many messages from `at` on, at most `most`, begin with the same bytes, `step` bytes apart."""
        most = min(most, (len(self._data) - at) // step)
        if most < 2:
            return 1
        rows = np.ndarray((most, len(begin)), np.uint8, self._data, at, (step, 1))
        same = (rows == np.frombuffer(begin, np.uint8)).all(axis=1)
        return most if same.all() else int(same.argmin())
