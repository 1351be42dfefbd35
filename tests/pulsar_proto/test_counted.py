"""Numbers with their nouns."""

import pytest

from pulsar_proto.counted import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (1000, "1000 messages")]
)
def test_one_thing_is_singular_and_all_other_numbers_are_plural(count: int, text: str) -> None:
    assert counted(count, "message") == text


def test_a_plural_and_a_format_may_be_given() -> None:
    assert counted(1, "entry is", "entries are") == "1 entry is"
    assert counted(1234567, "entry is", "entries are", ",") == "1,234,567 entries are"
    assert counted(1.0, "byte a second", "bytes a second", "g") == "1 byte a second"
    assert counted(0.5, "byte a second", "bytes a second", "g") == "0.5 bytes a second"
