"""Encodes which entries of a ledger a bookie has, for the answer to GET_LIST_OF_ENTRIES_OF_LEDGER.

A 64-byte header holds i32 version 0, i32 number of groups, and zeros. Each group then takes 24 bytes: i64 start of its
first sequence, i64 start of its last sequence, i32 entries in a sequence, i32 distance between starts (0 for a single
sequence). Source: AvailabilityOfEntriesOfLedger of BookKeeper 4.17, and an answer captured from it
(tests/vectors/bookkeeper_exchanges.json).
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from pulsar_proto.errors import MalformedFrame

HEADER_BYTES = 64
GROUPS_MAX = 200_000
"""How many groups a peer may announce at most. The groups must also fit into the packet."""

_HEADER = struct.Struct(">ii")
_GROUP = struct.Struct(">qqii")
_SEQUENCE_MAX = (1 << 31) - 1

Group = tuple[int, int, int, int]
"""A tuple (first start, last start, entries in a sequence, distance between starts)."""


def encode(runs: Iterable[range]) -> bytes:
    """Encodes runs of entry ids: ascending ranges of step 1 that do not overlap. Runs of one length at equal distances
    form a group."""
    groups: list[Group] = []
    for run in _joined(runs):
        for start in range(run.start, run.stop, _SEQUENCE_MAX):
            _append(groups, start, min(run.stop - start, _SEQUENCE_MAX))
    header = _HEADER.pack(0, len(groups)).ljust(HEADER_BYTES, b"\0")
    return header + b"".join([_GROUP.pack(*group) for group in groups])


def _joined(runs: Iterable[range]) -> Iterator[range]:
    """Yields the runs, but joins runs that follow each other without a gap into one."""
    open_run = range(0)
    for run in runs:
        if open_run and run.start == open_run.stop:
            open_run = range(open_run.start, run.stop)
        else:
            if open_run:
                yield open_run
            open_run = run
    if open_run:
        yield open_run


def _append(groups: list[Group], start: int, size: int) -> None:
    if groups:
        first, last, group_size, period = groups[-1]
        distance = start - last
        if size == group_size and distance <= _SEQUENCE_MAX and (not period or period == distance):
            groups[-1] = (first, start, size, distance)
            return
    groups.append((start, start, size, 0))


def decode(blob: bytes) -> list[range]:
    """Returns the sequences in the order of the groups. Raises MalformedFrame when numbers contradict each other."""
    if len(blob) < HEADER_BYTES:
        raise MalformedFrame(f"entry availability of {len(blob)} bytes has no header")
    version, count = _HEADER.unpack_from(blob)
    if version != 0 or not 0 <= count <= GROUPS_MAX or len(blob) != HEADER_BYTES + count * _GROUP.size:
        raise MalformedFrame(f"entry availability: version {version}, {count} groups in {len(blob)} bytes")
    runs: list[range] = []
    for group in _GROUP.iter_unpack(blob[HEADER_BYTES:]):
        runs += _sequences(group, GROUPS_MAX - len(runs))
    return runs


def _sequences(group: Group, most: int) -> Sequence[range]:
    """Returns the sequences of a group. Raises MalformedFrame when there are more than `most`, so that few bytes of a
    bookie cannot fill the memory."""
    first, last, size, period = group
    if size <= 0 or last < first or period < 0 or (period == 0) != (first == last):
        raise MalformedFrame(f"entry availability: group {group}")
    if period == 0 and most > 0:
        return (range(first, first + size),)
    if period == 0 or (last - first) % period or (last - first) // period >= most:
        raise MalformedFrame(f"entry availability: group {group}")
    return [range(start, start + size) for start in range(first, last + 1, period)]
