"""Thresholds, states and formats of checks."""

import json
import shlex

import pytest

from magnetar.server.commands.check import CHECKS
from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.server.tools.messages import check_measures as measures
from magnetar.server.tools.messages.check_format_rules import FORMATS
from magnetar.server.tools.messages.check_measures import KINDS
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds, parse_thresholds, worst
from magnetar.server.tools.messages.checking import run_check
from magnetar.server.tools.messages.tool_errors import ToolError, UnreachableError

SUBSCRIPTION = KINDS["subscription"]


def outcome_with(warn: list[str], critical: list[str], **values: float) -> Outcome:
    thresholds = parse_thresholds(SUBSCRIPTION, warn, critical)
    outcome = Outcome("subscription", "t s")
    for kind in SUBSCRIPTION:
        if kind.name in values:
            outcome.add(kind, values[kind.name], thresholds)
    return outcome


@pytest.mark.parametrize(
    ("backlog", "state"),
    [
        (0, State.OK),
        (9, State.OK),
        (10, State.WARNING),
        (19, State.WARNING),
        (20, State.CRITICAL),
        (99, State.CRITICAL),
    ],
)
def test_a_measure_that_is_better_low_has_reached_its_threshold(backlog: int, state: State) -> None:
    assert outcome_with(["10"], ["backlog=20"], backlog=backlog).state is state


@pytest.mark.parametrize(
    ("consumers", "state"), [(3, State.OK), (2, State.WARNING), (1, State.WARNING), (0, State.CRITICAL)]
)
def test_a_measure_that_is_better_high_is_below_its_threshold(consumers: int, state: State) -> None:
    assert outcome_with(["consumers=3"], ["consumers=1"], consumers=consumers).state is state


def test_the_worst_measure_decides() -> None:
    outcome = outcome_with(["age=1m"], ["backlog=5"], backlog=5, age=61, unacked=0)
    assert outcome.state is State.CRITICAL
    assert outcome.sentence == "backlog 5 (limit 5), age 61 s (limit 60 s), unacked 0"


def test_critical_is_worse_than_unknown_and_unknown_worse_than_ok() -> None:
    assert worst([State.OK, State.UNKNOWN]) is State.UNKNOWN
    assert worst([State.UNKNOWN, State.WARNING]) is State.WARNING
    assert worst([State.CRITICAL, State.UNKNOWN]) is State.CRITICAL
    assert worst([]) is State.OK


def test_thresholds_have_units() -> None:
    assert parse_thresholds(SUBSCRIPTION, ["backlog=10k"], ["age=1.5h"]) == Thresholds(
        {"backlog": 10000}, {"age": 5400}
    )
    assert parse_thresholds(KINDS["disk"], ["80%"], ["free=1G"]) == Thresholds({"used": 80}, {"free": 1 << 30})


@pytest.mark.parametrize(
    ("warn", "complaint"),
    [
        ("nope=1", "--warn: this check has no 'nope'; it has backlog, age"),
        ("backlog=many", "--warn: 'many' is no number"),
        ("age=soon", "--warn: 'soon' is no duration"),
        ("", "--warn: '' is no number"),
    ],
)
def test_wrong_thresholds_are_named(warn: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_thresholds(SUBSCRIPTION, [warn], [])


def test_a_certificate_warns_by_default() -> None:
    outcome = Outcome("connection", "u")
    outcome.add(measures.CERTIFICATE, 10 * 86400, Thresholds())
    assert outcome.state is State.WARNING
    assert outcome.sentence == "certificate 10 d (below 21 d)"


def test_nagios() -> None:
    outcome = outcome_with(["backlog=5"], ["consumers=1"], backlog=7, age=0.25, consumers=2)
    outcome.text = "a | b\nc"
    assert FORMATS["nagios"](outcome) == (
        "SUBSCRIPTION WARNING - a / b c, backlog 7 (limit 5), age 250 ms, consumers 2 "
        "| backlog=7;5;;0 age=0.25s;;;0 consumers=2;;1:;0\n"
    )
    assert FORMATS["nagios"](Outcome("brokers", "u")) == "BROKERS OK - fine\n"


def test_prometheus_has_one_help_and_type_for_each_name() -> None:
    outcome = outcome_with([], [], backlog=7, age=0.25)
    outcome.subject = 'a"b\\c\n'
    text = FORMATS["prometheus"](outcome)
    labels = '{check="subscription",subject="a\\"b\\\\c\\n"}'
    assert f"magnetar_check_state{labels} 0\n" in text
    assert f"magnetar_check_backlog{labels} 7\n" in text
    assert f"magnetar_check_age_seconds{labels} 0.25\n" in text
    assert text.count("# TYPE") == text.count("# HELP") == 3


def test_json_and_text() -> None:
    outcome = outcome_with(["backlog=5"], [], backlog=7)
    tree = json.loads(FORMATS["json"](outcome))
    assert (tree["state"], tree["code"], tree["measures"][0]["warn"]) == ("WARNING", 1, 5)
    assert FORMATS["text"](outcome) == "WARNING   subscription t s\n  WARNING   backlog 7 (limit 5)\n"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (AdminCallError("HTTP 500", 500), State.CRITICAL),
        (AdminCallError("no connection"), State.CRITICAL),
        (AdminCallError("HTTP 401", 401), State.UNKNOWN),
        (AdminCallError("HTTP 403", 403), State.UNKNOWN),
        (UnreachableError("refused"), State.CRITICAL),
        (ToolError("no client"), State.UNKNOWN),
        (ConnectionSettingsError("no file"), State.UNKNOWN),
        (KeyError("a bug"), State.UNKNOWN),
    ],
)
def test_a_fault_of_the_cluster_is_critical_and_one_of_the_check_unknown(
    error: Exception, state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(outcome: Outcome) -> None:
        raise error

    assert run_check(Outcome("topic", "t"), "nagios", work) == state.value
    assert capsys.readouterr().out.startswith(f"TOPIC {state.name} - ")


def test_the_help_names_every_measure_of_a_check() -> None:
    assert [check.name for check in CHECKS] == list(KINDS)
    for check in CHECKS:
        for kind in KINDS[check.name]:
            assert f"{kind.name}{'*' if kind.low_is_bad else ''}" in check.measures


def test_the_examples_of_the_help_have_thresholds_that_are_taken() -> None:
    for check in CHECKS:
        words = shlex.split(check.example)
        given = {
            name: [words[at + 1] for at, word in enumerate(words) if word == name] for name in ("--warn", "--critical")
        }
        assert parse_thresholds(KINDS[check.name], given["--warn"], given["--critical"]) != Thresholds()
