"""What `replay` decides without a broker: edges of ranges, how they are spelled as options, and values by a target's
schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.replay.replay_check import BEFORE, BEHIND, INSIDE, CopyPlaces, without_repeats
from magnetar.spark.jobs.replay.replay_range import Extent, RangeEdge
from magnetar.spark.jobs.replay.replay_values import BadRow, BadTransform, encoder_of
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, WHOLE_ENTRY, Bound, Range, bound_of_value
from pulsar_proto.pb import pulsar_api_pb2 as pb

TOPIC = "persistent://public/default/t"
RECORD = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "t", "type": "string"}]}


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("", RangeEdge()),
        ("1767607200000", RangeEdge(time=1767607200000)),
        ("2026-01-05T10:00:00", RangeEdge(time=1767607200000)),
        ("2026-01-05T11:00:00+01:00", RangeEdge(time=1767607200000)),
        ("3:14", RangeEdge(ids={"": "3:14"})),
        ("3:14:2", RangeEdge(ids={"": "3:14:2"})),
        ('{"t": "3:14"}', RangeEdge(ids={TOPIC: "3:14"})),
    ],
)
def test_an_edge_is_a_time_or_ids(text: str, edge: RangeEdge) -> None:
    assert RangeEdge.parse(text) == edge


@pytest.mark.parametrize("text", ["soon", "3:", "-1:-1", "{", "{}", '{"t": 3}', '{"t": "soon"}'])
def test_other_edges_are_refused_with_their_text(text: str) -> None:
    with pytest.raises(JobFailed) as refused:
        RangeEdge.parse(text)
    assert text in str(refused.value)


indexes = st.integers(0, 9) | st.just(WHOLE_ENTRY)
bounds = st.builds(Bound, st.integers(0, 9), st.integers(0, 9), indexes)


@given(st.just(BEFORE_ALL) | bounds, bounds)
def test_a_range_survives_its_spelling_as_options(after: Bound, upto: Bound) -> None:
    wanted = Range(after, upto)
    extent = Extent({TOPIC: wanted, f"{TOPIC}-empty": Range(upto, upto)})
    if wanted.is_empty:
        assert extent.is_empty
        return
    options = extent.read_options()
    assert options["topics"] == TOPIC
    starts = json.loads(options.get("startingOffsets", "{}"))
    assert (bound_of_value(starts[TOPIC], -1).before() if starts else BEFORE_ALL) == after
    assert bound_of_value(json.loads(options["endingOffsets"])[TOPIC], -1) == upto


@given(bounds, bounds, bounds)
def test_places_are_those_of_the_range(after: Bound, upto: Bound, found: Bound) -> None:
    index = -1 if found.batch_index == WHOLE_ENTRY else found.batch_index
    text = pb.MessageIdData(ledgerId=found.ledger, entryId=found.entry, batch_index=index).SerializeToString().hex()
    place = CopyPlaces.of({TOPIC: Range(after, upto)}).place(TOPIC, text)
    assert place == (BEFORE if found <= after else INSIDE if found <= upto else BEHIND)
    assert CopyPlaces.of({}).place(TOPIC, text) == BEHIND


def test_a_partition_is_read_once() -> None:
    parts = [f"{TOPIC}-partition-{index}" for index in range(2)]
    assert without_repeats([*parts, TOPIC]) == [TOPIC]
    assert without_repeats(parts) == parts


def schema(kind: str, definition: object = None) -> pb.Schema:
    data = json.dumps(definition).encode() if definition else b""
    return pb.Schema(name="", type=pb.Schema.Type.Value(kind), schema_data=data)


def test_values_are_written_in_the_targets_schema() -> None:
    assert encoder_of(None)({"value": "ä"}) == "ä".encode()
    assert encoder_of(schema("String"))({"value": b"x"}) == b"x"
    assert encoder_of(schema("Int32"))({"value": -2}) == b"\xff\xff\xff\xfe"
    assert encoder_of(schema("Json", RECORD))({"n": 1, "t": "a"}) == b'{"n":1,"t":"a"}'
    avro = encoder_of(schema("Avro", RECORD))({"t": "a", "n": 1})
    assert avro == b"\x02\x02a"


@pytest.mark.parametrize(
    ("kind", "row", "sentence"),
    [
        ("Int8", {"value": 300}, "300 is no Int8"),
        ("Int8", {"value": None}, "made null"),
        ("Avro", {"n": None, "t": "a"}, "does not fit the target's schema"),
        ("Json", {"n": "one", "t": "a"}, "does not fit the target's schema"),
        ("Json", {"n": 1}, "does not fit the target's schema"),
    ],
)
def test_rows_that_do_not_fit_are_named(kind: str, row: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadRow, match=sentence):
        encoder_of(schema(kind, RECORD if kind in ("Avro", "Json") else None))(row)


def test_transforms_that_cannot_fit_any_row_are_named() -> None:
    with pytest.raises(BadTransform, match="no field town; it has n, t"):
        encoder_of(schema("Json", RECORD))({"n": 1, "t": "a", "town": "b"})
    with pytest.raises(BadTransform, match="columns n, t"):
        encoder_of(None)({"n": 1, "t": "a"})
    with pytest.raises(BadTransform, match="gives int: cast it"):
        encoder_of(None)({"value": 3})
    with pytest.raises(BadTransform, match="KeyValue schema cannot be transformed"):
        encoder_of(schema("KeyValue"))
