"""Tables and YAML for people."""

import pytest

from magnetar.server.tools.admin.terminal_rules import table, yaml


def test_an_object_is_a_table_of_its_members_and_nested_ones_stand_behind_their_key() -> None:
    value = {"partitions": 3, "more": {"x": None, "deep": {"y": 1}}, "names": ["a", "b"], "no": None, "empty": {}}
    assert table(value) == (
        "partitions  3\nnames       a, b\nno          -\nempty       -\nmore\n  x  -\n  deep\n    y  1"
    )


def test_objects_are_rows_and_texts_are_lines() -> None:
    assert table([{"a": 1, "b": "x"}, {"b": "long text", "c": True}]) == (
        "A  B          C\n1  x          -\n-  long text  true"
    )
    assert table(["one", "two"]) == "one\ntwo"
    assert table([]) == table({}) == "(none)"
    assert table({"rows": [{"a": 1}, {"a": 22}]}) == "rows\n  A\n  1\n  22"
    assert table(None) == "(not set)"
    assert table("text") == "text"


def test_objects_with_many_fields_stand_one_below_the_other() -> None:
    many = {f"f{number}": number for number in range(9)}
    assert table([many, {"g": {"h": 1}}]).splitlines()[:2] == ["- f0  0", "  f1  1"]
    assert table([many, {"g": {"h": 1}}]).splitlines()[-2:] == ["- g", "    h  1"]
    assert table([["a"], [1, {"b": 2}]]) == "a\n- 1\n  - b  2"


def test_long_cells_are_cut_unless_the_table_is_wide() -> None:
    assert table({"a": "x" * 100}).endswith("x…")
    assert table({"a": "x" * 100}, wide=True) == "a  " + "x" * 100


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert table(["a\x1b[31mb", "c\x9bd"]) == "a\\x1b[31mb\nc\\x9bd"
    assert table("ä\x07") == "ä\\x07"
    assert yaml("\x1bä") == '"\\u001b\\u00e4"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        (None, "null"),
        (1.5, "1.5"),
        ("plain text", "plain text"),
        ("true", '"true"'),
        ("12", '"12"'),
        ("a: b", '"a: b"'),
        ("", '""'),
        ("-x", '"-x"'),
        ("two\nlines", '"two\\nlines"'),
        ({"a": {"b": [1, {"c": "d", "e": []}]}}, "a:\n  b:\n    - 1\n    - c: d\n      e: []"),
        ([["x"], {}], "- - x\n- {}"),
    ],
)
def test_yaml_quotes_what_would_be_read_as_something_else(value: object, text: str) -> None:
    assert yaml(value) == text
