"""The outcomes of checks as monitoring systems read them. This module does no I/O.

    nagios      one line: `LATENCY OK - latency 3.1 ms | latency=0.0031s;1;5;0`
    prometheus  text for node_exporter's textfile collector, with the state as 0 to 3
    json        one object
    text        a line for each measure, for people

Sources: the Monitoring Plugins Development Guidelines, "Plugin Output for Nagios"; Prometheus, "Text-based format".
"""

import json
from collections.abc import Callable

from magnetar.server.tools.messages.check_rules import Measure, Outcome, Unit

UNITS = {Unit.COUNT: "", Unit.SECONDS: "s", Unit.BYTES: "B", Unit.PERCENT: "%"}
NAMES = {Unit.COUNT: "", Unit.SECONDS: "_seconds", Unit.BYTES: "_bytes", Unit.PERCENT: "_percent"}


def nagios(outcome: Outcome) -> str:
    """Returns the line of a plugin. A bar would end the text for people, so it becomes a slash."""
    line = f"{outcome.check.upper()} {outcome.state.name} - {outcome.sentence}".replace("|", "/").replace("\n", " ")
    data = " ".join(_perfdata(measure) for measure in outcome.measures)
    return f"{line} | {data}\n" if data else f"{line}\n"


def _perfdata(measure: Measure) -> str:
    low = measure.kind.low_is_bad
    warn, critical = (
        "" if limit is None else f"{_digits(limit)}:" if low else _digits(limit)
        for limit in (measure.warn, measure.critical)
    )
    return f"{measure.kind.name}={_digits(measure.value)}{UNITS[measure.kind.unit]};{warn};{critical};0"


def _digits(value: float) -> str:
    """Returns the number without an exponent, to six places."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def prometheus(outcome: Outcome) -> str:
    """Returns the text format, with the check and its subject as labels."""
    labels = f'{{check="{_label(outcome.check)}",subject="{_label(outcome.subject)}"}}'
    lines = [
        "# HELP magnetar_check_state The state of a check: 0 ok, 1 warning, 2 critical, 3 unknown.",
        "# TYPE magnetar_check_state gauge",
        f"magnetar_check_state{labels} {outcome.state.value}",
    ]
    for measure in outcome.measures:
        name = f"magnetar_check_{measure.kind.name}{NAMES[measure.kind.unit]}"
        lines += [
            f"# HELP {name} {measure.kind.help[:1].upper()}{measure.kind.help[1:]}.",
            f"# TYPE {name} gauge",
            f"{name}{labels} {_digits(measure.value)}",
        ]
    return "".join(f"{line}\n" for line in lines)


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def as_json(outcome: Outcome) -> str:
    """Returns one object on a line."""
    tree = {
        "check": outcome.check,
        "subject": outcome.subject,
        "state": outcome.state.name,
        "code": outcome.state.value,
        "text": outcome.sentence,
        "measures": [
            {
                "name": measure.kind.name,
                "value": measure.value,
                "unit": measure.kind.unit.name.lower(),
                "warn": measure.warn,
                "critical": measure.critical,
                "state": measure.state.name,
            }
            for measure in outcome.measures
        ],
    }
    return json.dumps(tree, ensure_ascii=False) + "\n"


def as_text(outcome: Outcome) -> str:
    """Returns a line for the check and a line for each measure."""
    lines = [f"{outcome.state.name:<9} {outcome.check} {outcome.subject}{': ' if outcome.text else ''}{outcome.text}"]
    lines += [f"  {measure.state.name:<9} {measure.text}" for measure in outcome.measures]
    return "".join(f"{line}\n" for line in lines)


FORMATS: dict[str, Callable[[Outcome], str]] = {
    "nagios": nagios,
    "prometheus": prometheus,
    "json": as_json,
    "text": as_text,
}
