"""What the console decides, apart from its pages: positions, previews, searches, differences, names."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from compat_tests.chromium import Chromium
from compat_tests.harness import Server

Rule = Callable[[str, str], Any]

STATS = {
    "ledgers": [{"ledgerId": 5, "entries": 10}, {"ledgerId": 9, "entries": 0}],
    "currentLedgerEntries": 20,
    "cursors": {
        "s": {
            "markDeletePosition": "5:3",
            "readPosition": "9:12",
            "individuallyDeletedMessages": "[(5:5..5:7],(5:9..9:1],(9:3..9:4]]",
            "totalNonContiguousDeletedMessagesRange": 3,
        }
    },
}
"""Ledger 5 has 10 entries and ledger 9 has 20. Behind 5:3 these are acknowledged: 5:6, 5:7, 9:0, 9:1, 9:4."""

OPEN_PLACES = f"""
const line = new rules.TopicLine({json.dumps(STATS)});
const backlog = rules.backlogOf(line, {json.dumps(STATS)}.cursors.s);
"""


@pytest.fixture(scope="module")
def rule(chromium: Chromium, shared_server: Server) -> Rule:
    """Returns a function that runs a script with the module of that name as `rules`, and returns what it returns."""
    page = chromium.new_page()
    page.open(f"{shared_server.web_url}/#/bookies")

    def run(name: str, script: str) -> Any:
        return page.value(f"import('./console/parts/{name}.js').then((rules) => {{ {script} }})")

    return run


def test_positions_of_all_ledgers_are_places_of_one_line(rule: Rule) -> None:
    script = f"{OPEN_PLACES} return [line.length, line.behind({{ledger: 9, entry: 0}}), line.at(10), line.at(29)]"
    assert rule("backlog_map_rules", script) == [30, 11, "9:0", "9:19"]
    assert rule("backlog_map_rules", f"{OPEN_PLACES} return line.behind({{ledger: 7, entry: 3}})") == 10, "deleted"
    assert rule("backlog_map_rules", f"{OPEN_PLACES} return line.behind({{ledger: -1, entry: -1}})") == 0


def test_holes_are_what_is_not_acknowledged_before_what_is(rule: Rule) -> None:
    found = rule("backlog_map_rules", f"{OPEN_PLACES} return backlog")
    assert (found["begin"], found["end"], found["readPlace"]) == (4, 30, 22)
    assert found["ranges"] == [[6, 8], [10, 12], [14, 15]]
    assert found["holes"] == [[4, 6], [8, 10], [12, 14]]
    assert found["isCut"] is False


@pytest.mark.parametrize("cells_max", [1, 3, 7, 1000])
def test_the_cells_of_a_map_hold_each_entry_once(rule: Rule, cells_max: int) -> None:
    map_of = rule("backlog_map_rules", f"{OPEN_PLACES} return rules.cellsOf(backlog, {cells_max})")
    assert len(map_of["cells"]) <= cells_max
    assert map_of["unread"] == 8
    sums = {
        state: sum(cell["counts"][state] for cell in map_of["cells"]) for state in ("hole", "acked", "read", "unread")
    }
    assert sums == {"hole": 6, "acked": 5, "read": 7, "unread": 0}
    bounds = [(cell["first"], cell["last"]) for cell in map_of["cells"]]
    assert bounds[0][0] == 4
    assert bounds[-1][1] == 22
    assert all(left[1] == right[0] for left, right in pairwise(bounds))


@pytest.mark.parametrize("entries_per_cell", [1, 4, 18])
def test_the_server_s_map_has_the_same_cells(rule: Rule, entries_per_cell: int) -> None:
    acked = [int(place in (6, 7, 10, 11, 14)) for place in range(4, 22)]
    told = {
        "markDeletePosition": "5:3",
        "readPosition": "9:12",
        "entries": 18,
        "toLastAcked": 11,
        "entriesPerCell": entries_per_cell,
        "acked": [sum(acked[at : at + entries_per_cell]) for at in range(0, len(acked), entries_per_cell)],
    }
    script = f"{OPEN_PLACES} const per = {entries_per_cell}, map = rules.cellsOfMap(line, {json.dumps(told)}); "
    script += "return [map, rules.cellsOf(backlog, Math.ceil(18 / per))]"
    of_server, of_ranges = rule("backlog_map_rules", script)
    if entries_per_cell == 4:
        assert [cell["first"] for cell in of_server["cells"]] == [4, 8, 12, 16, 20]
    assert of_server == of_ranges


@pytest.mark.parametrize(
    ("call", "promised"),
    [
        ("previewOfSkip(line, backlog, 1)", "Acknowledges 1 entry of 21, 5:4."),
        ("previewOfSkip(line, backlog, 4)", "Acknowledges 4 entries of 21, from 5:4 to 5:9."),
        ("previewOfSkip(line, backlog, 99)", "Acknowledges 21 entries of 21, from 5:4 to 9:19."),
        ("previewOfClear(line, backlog)", "Acknowledges the whole backlog, 21 entries, to 9:19."),
        ("previewOfReset(line, backlog, 0)", "Goes back to 5:0: 9 entries that are acknowledged"),
        (
            "previewOfReset(line, backlog, 12)",
            "Goes on at 9:2: 4 entries that are not acknowledged will be skipped. 1 entry",
        ),
        ("previewOfReset(line, backlog, 30)", "Goes on at the end of the topic: 21 entries"),
        ("previewOfExpiry(line, backlog, 12)", "Acknowledges 4 entries of 21, those before 9:2,"),
        ("previewOfExpiry(line, backlog, 4)", "Nothing is that old"),
        ("previewOfExpiry(line, {...backlog, isCut: true}, 30)", "Acknowledges up to 21 entries of 21"),
    ],
)
def test_a_preview_counts_what_an_action_touches(rule: Rule, call: str, promised: str) -> None:
    script = f"""
    return import('./console/parts/preview_rules.js').then((previews) => {{
      {OPEN_PLACES}
      return previews.{call};
    }})"""
    assert rule("backlog_map_rules", script).startswith(promised)


def test_the_first_entries_that_are_not_acknowledged_are_found(rule: Rule) -> None:
    script = f"""
    return import('./console/parts/preview_rules.js').then((previews) => {{
      {OPEN_PLACES}
      return previews.firstUnacked(backlog, 7).map((place) => line.at(place));
    }})"""
    assert rule("backlog_map_rules", script) == ["5:4", "5:5", "5:8", "5:9", "9:2", "9:3", "9:5"]


def test_rows_are_sorted_by_number_and_name_and_those_without_a_value_come_last(rule: Rule) -> None:
    columns = '[{key: "n", value: (row) => row}]'
    for rows, direction, wanted in (
        ([3, None, 20, 1], "ascending", [1, 3, 20, None]),
        ([3, None, 20, 1], "descending", [20, 3, 1, None]),
        (["t-10", "t-9", "T-1"], "ascending", ["T-1", "t-9", "t-10"]),
    ):
        script = f"return rules.sortedRows({json.dumps(rows)}, {columns}, ['n', '{direction}'])"
        assert rule("table_rules", script) == wanted
    script = "return rules.foundRows(['acme/shop', 'acme/Store', 'other'], 'ST acme', String)"
    assert rule("table_rules", script) == ["acme/Store"]


def test_a_difference_leads_from_one_text_to_the_other(rule: Rule) -> None:
    lines = rule("diff_rules", r"return rules.differenceOf('a\nb\nc\nd', 'a\nc\nx\nd')")
    assert [(each["kind"], each["text"]) for each in lines] == [
        ("same", "a"),
        ("removed", "b"),
        ("same", "c"),
        ("added", "x"),
        ("same", "d"),
    ]


def test_an_example_is_written_as_the_type_of_schema_asks_for(rule: Rule) -> None:
    fields = [
        {"name": "id", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "kinds", "type": ["null", "Kind"]},
        {"name": "next", "type": ["null", "Order"]},
    ]
    schema = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})
    plain = {"id": 0, "at": 0, "kind": "A", "kinds": "A", "next": None}
    named = {**plain, "id": {"int": 0}, "kinds": {"shop.Kind": "A"}}
    for kind, data, wanted in (("JSON", schema, plain), ("AVRO", schema, named)):
        script = f"return JSON.parse(rules.exampleOf({{type: '{kind}', data: {json.dumps(data)}}}))"
        assert rule("example_rules", script) == wanted
    endless = '{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}'
    for kind, data in (("AVRO", endless), ("AVRO", "no JSON"), ("STRING", "")):
        assert rule("example_rules", f"return rules.exampleOf({{type: '{kind}', data: {json.dumps(data)}}})") == ""


def test_events_are_read_however_the_network_cuts_them(rule: Rule) -> None:
    stream = 'event: broker\ndata: {"a":1}\n\n: a comment\n\nevent: topic\r\ndata: 1\r\ndata: 2\r\n\r\n'
    script = f"""
    const text = {json.dumps(stream)};
    return [1, 2, 7, 1000].map((size) => {{
      const parser = new rules.EventParser();
      const events = [];
      for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
      return events;
    }})"""
    wanted = [{"event": "broker", "data": '{"a":1}'}, {"event": "topic", "data": "1\n2"}]
    assert rule("event_stream", script) == [wanted] * 4


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("orders", ["persistent", "public", "default", "orders"]),
        ("acme/shop/a/b", ["persistent", "acme", "shop", "a/b"]),
        ("non-persistent://acme/shop/x", ["non-persistent", "acme", "shop", "x"]),
        ("acme/shop", None),
        (" ", None),
    ],
)
def test_names_of_topics_are_read_as_the_commands_read_them(rule: Rule, text: str, topic: list[str] | None) -> None:
    found = rule("routes", f"return rules.parseTopic({json.dumps(text)})")
    assert (None if found is None else list(found.values())) == topic


def test_an_address_keeps_any_name_whole(rule: Rule) -> None:
    name = "a/b?c#d%20 é<b>"
    script = f"return rules.readRoute(rules.link('topics', {json.dumps(name)}, 'x')).segments"
    assert rule("routes", script) == ["topics", name, "x"]


def test_numbers_sizes_and_times_are_short_and_exact(rule: Rule) -> None:
    for call, wanted in {
        "count(1234567)": "1,234,567",
        "count(undefined)": "–",
        "rate(0)": "0",
        "rate(0.04)": "<0.1",
        "rate(12.34)": "12.3",
        "rate(1234.5)": "1,235",
        "bytes(0)": "0 B",
        "bytes(1536)": "1.5 KiB",
        "bytes(1048575)": "1,024 KiB",
        "duration(0.5)": "500 ms",
        "duration(75)": "1 min 15 s",
        "duration(3725)": "1 h 2 min",
        "duration(200000)": "2 d 7 h",
        "time(0)": "–",
        "time(1795523177773)": "2026-11-24 12:26:17.773",
        "plural(1, 'entry', 'entries')": "1 entry",
        'shellWord("it\'s")': "'it'\\''s'",
    }.items():
        assert rule("format_rules", f"return rules.{call}") == wanted, call
    assert rule("format_rules", "return rules.messageId('5:7:2')") == {"ledger": 5, "entry": 7, "batch": 2}
    assert rule("format_rules", "return rules.messageId('5')") is None


def test_a_login_may_hold_any_character(rule: Rule) -> None:
    header = rule("login_session", "return rules.basicHeader('jürgen', 'grüße:x')")
    assert header == "Basic asO8cmdlbjpncsO8w59lOng="
    assert rule("login_session", f"return rules.shownIdentity({json.dumps(header)})") == "jürgen"
