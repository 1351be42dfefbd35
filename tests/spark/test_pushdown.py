"""Filters that Spark leaves to the data source: the rows are those of a whole read, and fewer messages are fetched."""

import contextlib
import datetime
import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from compat_tests import wire
from magnetar.spark.source import PulsarDataSource
from magnetar.spark.source.client.partition_reader import PartitionReader
from magnetar.spark.source.data_source import PulsarReader
from magnetar.spark.source.decoding.entry_block import EntryBlock
from magnetar.spark.source.reading import LOOKUP_PERMITS
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch, build_payload
from tests.rounds import rounds
from tests.spark.support import Scene

pytestmark = [pytest.mark.process]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TOPIC = "persistent://public/default/pushed"
PARTITIONS = 2
ENTRIES = 40
FIRST_MS = 1_700_000_000_000
STEP_MS = 1000
JITTER_MS = 1500
"""How far entries are from the order of their publish times."""
KEYS = (None, b"a", b"b", b"\xff\x00")
KEYS_OF_ENTRIES: Sequence[Sequence[bytes | None]] = ([None], [b"a", b"b", None], [b"\xff\x00"], [b"b", b"b"])

Row = dict[str, Any]


def send(scene: Scene, topic: str, entries: Sequence[tuple[int, Sequence[bytes | None]]], first: int) -> None:
    """Sends an entry for each publish time with the keys of its messages: a batch, or a single message for one key."""
    with wire.WireClient(scene.server.broker_port) as client:
        name = client.open_producer(topic)
        for number, (milliseconds, keys) in enumerate(entries):
            meta = pb.MessageMetadata(producer_name=name, sequence_id=number, publish_time=milliseconds)
            if len(keys) == 1:
                set_key(meta, keys[0])
                payload = build_payload(meta, b"%d" % (first + number))
            else:
                meta.num_messages_in_batch = len(keys)
                messages = []
                for index, key in enumerate(keys):
                    one = pb.SingleMessageMetadata(payload_size=0)
                    set_key(one, key)
                    messages.append((one, b"%d.%d" % (first + number, index)))
                payload = build_payload(meta, build_batch(messages))
            client.send_raw(wire.frame(wire.SEND, [(1, 1), (2, number), (3, len(keys))], payload))
            client.expect(wire.SEND_RECEIPT)


def set_key(meta: pb.MessageMetadata | pb.SingleMessageMetadata, key: bytes | None) -> None:
    if key == KEYS[-1]:
        meta.partition_key, meta.partition_key_b64_encoded = "/wA=", True
    elif key is not None:
        meta.partition_key = key.decode()


@pytest.fixture(scope="module")
def rows(scene: Scene) -> list[Row]:
    """Fills a topic, and returns what a read without filters gives."""
    scene.admin.put("persistent/public/default/pushed/partitions", PARTITIONS)
    for partition in range(PARTITIONS):
        times = [FIRST_MS + n * STEP_MS + (n * 7919 % (2 * JITTER_MS)) - JITTER_MS for n in range(ENTRIES)]
        entries = list(zip(times, itertools.cycle(KEYS_OF_ENTRIES), strict=False))
        send(scene, f"{TOPIC}-partition-{partition}", entries, partition * ENTRIES)
    return read(reader_of(scene))


def reader_of(scene: Scene, conditions: list[Filter] | None = None, **more: object) -> PulsarReader:
    names = "value,__key,__topic,__partition,__messageId,__publishTime"
    given = {"maxPublishTimeDisorder": f"{2 * JITTER_MS}ms", "columns": names, **more}
    source = PulsarDataSource(scene.options(TOPIC, **given))
    reader = source.reader(source.schema())
    assert isinstance(reader, PulsarReader)
    if conditions is not None:
        assert reader.pushFilters(conditions) == []
    return reader


def read(reader: PulsarReader) -> list[Row]:
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def time_of(milliseconds: float) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)


COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: bool(value == other),
    GreaterThan: lambda value, other: bool(value > other),
    GreaterThanOrEqual: lambda value, other: bool(value >= other),
    LessThan: lambda value, other: bool(value < other),
    LessThanOrEqual: lambda value, other: bool(value <= other),
    In: lambda value, others: value in others,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: lambda value, part: part in value,
}


def truth(condition: Filter, row: Row) -> bool | None:
    """Returns what SQL says of a condition; None is unknown."""
    if isinstance(condition, Not):
        inner = truth(condition.child, row)
        return None if inner is None else not inner
    value = row[condition.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(condition, IsNull | IsNotNull):
        return (value is None) is isinstance(condition, IsNull)
    if isinstance(condition, EqualNullSafe):
        return bool(value == condition.value)
    if value is None:
        return None
    return COMPARISONS[type(condition)](value, condition.value)  # type: ignore[attr-defined]


def expected(rows: list[Row], conditions: Sequence[Filter]) -> list[Row]:
    return [row for row in rows if all(truth(each, row) for each in conditions)]


times = st.integers(-5 * JITTER_MS, ENTRIES * STEP_MS + 5 * JITTER_MS).map(lambda n: time_of(FIRST_MS + n + n % 3 / 2))
topics = st.sampled_from([f"{TOPIC}-partition-{n}" for n in range(PARTITIONS + 1)] + ["", "persistent://public/"])
COMPARED = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def message_id(ledger: int, entry: int, partition: int) -> bytes:
    return pb.MessageIdData(ledgerId=ledger, entryId=entry, partition=partition).SerializeToString()


@st.composite
def conditions_of(draw: st.DrawFn, rows: list[Row]) -> Filter:
    ids = st.sampled_from([row["__messageId"] for row in rows]) | st.binary(max_size=12)
    ids |= st.builds(message_id, st.integers(0, 50), st.integers(0, 2 * ENTRIES), st.integers(-1, PARTITIONS))
    columns: dict[str, st.SearchStrategy[Any]] = {
        "__key": st.sampled_from(KEYS[1:]) | st.binary(max_size=2),
        "__topic": topics,
        "__partition": st.integers(-1, PARTITIONS),
        "__messageId": ids,
        "__publishTime": times,
    }
    name = draw(st.sampled_from(sorted(columns)))
    kinds: list[Any] = [*COMPARED, In, IsNull, IsNotNull]
    if name == "__topic":
        kinds += [StringStartsWith, StringEndsWith, StringContains]
    kind = draw(st.sampled_from(kinds))
    if kind in (IsNull, IsNotNull):
        made = kind((name,))
    elif kind is In:
        made = In((name,), tuple(draw(st.lists(columns[name], min_size=1, max_size=4))))
    else:
        made = kind((name,), draw(columns[name]))
    return Not(made) if draw(st.integers(0, 4)) == 0 else made


@settings(max_examples=rounds(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_rows_are_those_of_a_whole_read_for_any_filters(scene: Scene, rows: list[Row], data: st.DataObject) -> None:
    assert len(rows) == PARTITIONS * ENTRIES * 7 // 4
    conditions = data.draw(st.lists(conditions_of(rows), min_size=1, max_size=3))
    found = read(reader_of(scene, conditions, maxBytesPerPartition=data.draw(st.sampled_from([0, 0, 1000]))))
    assert found == expected(rows, conditions), conditions


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ([EqualTo(("value",), b"3")], [0]),
        ([EqualTo(("__key",), None), IsNull(("__key",))], [0]),
        ([EqualTo(("__partition",), "x"), StringContains(("__key",), "t"), StringContains(("__topic",), "t")], [0, 1]),
        ([In(("__key",), (b"a", None)), Not(Not(IsNull(("__key",))))], [0, 1]),
        ([EqualTo(("__messageProperties", "a"), "b"), EqualTo(("__schemaVersion",), b"")], [0, 1]),
    ],
)
def test_what_the_source_does_not_take_is_left_to_spark(
    scene: Scene, rows: list[Row], conditions: list[Filter], left: list[int]
) -> None:
    source = PulsarDataSource(scene.options(TOPIC))
    reader = source.reader(source.schema())
    assert reader.pushFilters(conditions) == [conditions[index] for index in left]


def fetched(monkeypatch: pytest.MonkeyPatch, reader: PulsarReader) -> int:
    """Reads everything, and returns how many messages came from the broker on the way."""
    counted = 0
    real = PartitionReader.read_block

    def counting(self: PartitionReader, deadline: float) -> EntryBlock | None:
        nonlocal counted
        block = real(self, deadline)
        counted += 0 if block is None else int(block.permits().sum())
        return block

    with monkeypatch.context() as patched:
        patched.setattr(PartitionReader, "read_block", counting)
        read(reader)
    return counted


def test_fewer_messages_are_fetched(scene: Scene, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    begin, end = time_of(FIRST_MS + 12 * STEP_MS), time_of(FIRST_MS + 15 * STEP_MS)
    between: list[Filter] = [GreaterThanOrEqual(("__publishTime",), begin), LessThan(("__publishTime",), end)]
    an_id = rows[45]["__messageId"]
    asked: list[list[Filter]] = [
        [],
        [EqualTo(("__partition",), 1)],
        between,
        [EqualTo(("__messageId",), an_id)],
        [EqualTo(("__topic",), "none")],
        [LessThan(("__publishTime",), begin), GreaterThan(("__publishTime",), end)],
    ]
    costs = [fetched(monkeypatch, reader_of(scene, each, pulsar_reader_receiverQueueSize=1)) for each in asked]
    everything = len(rows)
    margin_ms = 2 * JITTER_MS + JITTER_MS  # of disorder, and of the entries' times
    entries = (3 * STEP_MS + 2 * margin_ms) // STEP_MS + 2  # two for the ends: one is known, and one comes too late
    assert costs[:2] == [everything, everything // 2]
    assert costs[2] <= PARTITIONS * entries * 3 < everything
    assert costs[3] <= LOOKUP_PERMITS + 3
    assert costs[4:] == [0, 0]


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.select("value", "__topic", "__messageId").collect()))


def explained(frame: DataFrame) -> str:
    """Returns what `frame.explain("formatted")` prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain("formatted")
    return printed.getvalue()


def test_spark_gives_the_same_rows_with_and_without_pushdown_and_explain_names_the_conditions(
    scene: Scene, rows: list[Row]
) -> None:
    begin, end = time_of(FIRST_MS + 12 * STEP_MS), time_of(FIRST_MS + 15 * STEP_MS)
    key, message_id, topic = F.col("__key"), F.col("__messageId"), F.col("__topic")
    queries = {
        "GreaterThanOrEqual(__publishTime": F.col("__publishTime").between(F.lit(begin), F.lit(end)),
        "EqualTo(__messageId": message_id == F.lit(bytes(rows[45]["__messageId"])),
        "StringEndsWith(__topic,-partition-1)": topic.endswith("-partition-1") & (key == F.lit(b"b")),
        "Not(In(__key": ~key.isin([bytearray(b"a"), bytearray(b"b")]),
        "": (key == F.lit(b"a")) | (F.col("value") == F.lit(b"0")),
    }
    names = {"columns": "value,__key,__topic,__messageId,__publishTime", "maxPublishTimeDisorder": "3s"}
    for name, query in queries.items():
        found = []
        for pushdown in ("false", "true"):
            scene.session.conf.set(PUSHDOWN, pushdown)
            frame = scene.read(TOPIC, **names).where(query)
            found.append(rows_of(frame))
        assert found[0] == found[1], name
        assert 0 < len(found[0]) < len(rows)
        (pushed,) = [line for line in explained(frame).splitlines() if line.startswith("PushedFilters: ")] or [""]
        assert name in pushed
