"""Texts of a command line become values as in Java, or are refused with Java's texts."""

import pytest

from magnetar.server.tools.admin import command_table as table
from magnetar.server.tools.admin.command_table import Option
from magnetar.server.tools.admin.value_rules import MessageId, message_id, option_value, seconds, size_in_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("3H", 10_800),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1y", 31_536_000),
        ("-1", -1),
        ("-1d", -86_400),
        ("+5", 5),
    ],
)
def test_times_have_units(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "time cannot be empty"), ("3x", "Invalid time unit 'x'"), ("h", "'' is not a time"), ("1.5h", "'1.5'")],
)
def test_what_is_no_time_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("4096", 4096), ("10k", 10_240), ("10M", 10 << 20), ("2T", 2 << 40), ("-1", -1)]
)
def test_sizes_have_units(text: str, expected: int) -> None:
    assert size_in_bytes(text) == expected


@pytest.mark.parametrize("text", ["10X", "M", "1.5G", "9223372036854775808"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid size '.*'. Valid formats are: \(4096, 100K, 10M, 16G, 2T\)"):
        size_in_bytes(text)


def test_a_message_id_is_a_ledger_and_an_entry() -> None:
    assert message_id("3:4") == MessageId(3, 4)
    assert message_id("3:4", 7).reset_body()["partitionIndex"] == 7
    for text in ("", "3", "3:", "3:4:5", "a:b", "earliest"):
        with pytest.raises(ValueError, match="must be in format: ledgerId:entryId"):
            message_id(text)


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        (table.TEXT, ["a,b"], "a,b"),
        (table.INTEGER, ["-7"], -7),
        (table.FLOAT, ["0.5"], 0.5),
        (table.BOOLEAN, ["False"], False),
        (table.MILLIS, ["2s"], 2_000),
        (table.LIST, ["a,b", "c"], ["a,b", "c"]),
        (table.COMMAS, ["a,b", "c"], ["a", "b", "c"]),
        (table.PAIRS, ["a=b", "c=d=e"], {"a": "b", "c": "d=e"}),
        (table.COMMA_PAIRS, ["a=b,c=d"], {"a": "b", "c": "d"}),
    ],
)
def test_an_option_s_kind_decides_about_its_value(kind: str, texts: list[str], expected: object) -> None:
    value = None
    for text in texts:
        value = option_value(Option("-x", "", kind), text, value)
    assert value == expected


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (table.INTEGER, "2147483648", "'2147483648' is not an int"),
        (table.INTEGER, "1_0", "'1_0' is not an int"),
        (table.LONG, "x", "'x' is not a long"),
        (table.FLOAT, "x", "'x' is not a double"),
        (table.BOOLEAN, "yes", "'yes' is not a boolean"),
        (table.PAIRS, "=b", "Invalid key value pair '=b'"),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        option_value(Option("-x", "", kind), text, None)


def test_a_choice_is_one_of_those_that_there_are() -> None:
    assert option_value(Option("-x", "", choices=("A", "B")), "A", None) == "A"
    with pytest.raises(ValueError, match="'a' is not one of A, B"):
        option_value(Option("-x", "", choices=("A", "B")), "a", None)
    with pytest.raises(ValueError, match="given only once"):
        option_value(Option("-x", ""), "b", "a")
