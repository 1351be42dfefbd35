"""The units of docs/SERVICE.md start commands that there are, and wait for what the servers tell."""

import configparser
import re
import shlex

from magnetar.server.process.service_manager import READY
from tests.doc_pages.command_faults import fault_of
from tests.doc_pages.command_lines import ROOT

PAGE = (ROOT / "docs" / "SERVICE.md").read_text()


def units() -> list[configparser.ConfigParser]:
    found = []
    for block in re.findall(r"^```ini\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        unit = configparser.ConfigParser()
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(block)
        found.append(unit)
    return found


def test_the_units_start_commands_that_there_are() -> None:
    started = [shlex.split(unit["Service"]["ExecStart"]) for unit in units()]
    assert [words[1] for words in started] == ["standalone", "backup"]
    for program, *words in started:
        assert program == "/opt/magnetar/bin/magnetar"
        assert fault_of(words) is None


def test_the_server_s_unit_waits_for_the_notification_and_keeps_its_data() -> None:
    unit = units()[0]["Service"]
    assert (unit["Type"], READY) == ("notify", "READY=1")
    assert f"--data-dir /var/lib/{unit['StateDirectory']} " in unit["ExecStart"]
    assert unit["Restart"] == "on-failure"
