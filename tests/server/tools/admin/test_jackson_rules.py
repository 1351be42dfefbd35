"""Values are printed as Java prints them, byte for byte."""

import json

import pytest

from magnetar.server.tools.admin.hex_dump_rules import pretty_hex_dump
from magnetar.server.tools.admin.jackson_rules import (
    compact,
    double_text,
    gson,
    lombok_text,
    pretty,
    to_string,
)

VALUE = {"a": 1, "b": [], "c": {}, "d": ["x", {"e": None}], "f": {"g": True, "h": [1, 2]}}
PRETTY = """\
{
  "a" : 1,
  "b" : [ ],
  "c" : { },
  "d" : [ "x", {
    "e" : null
  } ],
  "f" : {
    "g" : true,
    "h" : [ 1, 2 ]
  }
}"""
GSON = """\
{
  "a": 1,
  "b": [],
  "c": {},
  "d": [
    "x",
    {
      "e": null
    }
  ],
  "f": {
    "g": true,
    "h": [
      1,
      2
    ]
  }
}"""


def test_objects_stand_over_lines_and_arrays_on_one() -> None:
    assert pretty(VALUE) == PRETTY
    assert gson(VALUE, "  ") == GSON
    assert compact(VALUE) == '{"a":1,"b":[],"c":{},"d":["x",{"e":null}],"f":{"g":true,"h":[1,2]}}'
    assert json.loads(pretty(VALUE)) == VALUE


def test_gson_escapes_what_means_something_in_html() -> None:
    assert gson({"a=b": "<'&'>"}) == r'{"a\u003db":"\u003c\u0027\u0026\u0027\u003e"}'


def test_texts_keep_their_letters() -> None:
    assert pretty('ä"\n') == '"ä\\"\\n"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (-2.25, "-2.25"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (123456789.125, "1.23456789125E8"),
        (-1e-9, "-1.0E-9"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_are_written_as_by_java(value: float, text: str) -> None:
    assert double_text(value) == text


def test_objects_become_texts_as_by_lombok() -> None:
    assert to_string({"a": ["b", "c"], "d": None}) == "{a=[b, c], d=null}"
    assert lombok_text("Quota", {"limit": -1, "policy": "hold"}) == "Quota(limit=-1, policy=hold)"


def test_payloads_are_dumped_as_by_netty() -> None:
    assert pretty_hex_dump(b"") == ""
    assert pretty_hex_dump(b"m-0\n" + bytes(range(0x61, 0x6F))) == (
        "         +-------------------------------------------------+\n"
        "         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
        "+--------+-------------------------------------------------+----------------+\n"
        "|00000000| 6d 2d 30 0a 61 62 63 64 65 66 67 68 69 6a 6b 6c |m-0.abcdefghijkl|\n"
        "|00000010| 6d 6e                                           |mn              |\n"
        "+--------+-------------------------------------------------+----------------+"
    )
