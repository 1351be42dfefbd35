"""A command line is read by picocli's rules."""

from typing import Any

import pytest

from magnetar.server.tools.admin import command_table as table
from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import Argument, Call, Command, Option
from magnetar.server.tools.admin.parsing_rules import OptionReader, parse_command
from magnetar.server.tools.admin.running import shared_reader

COMMAND = Command(
    "try",
    "Tries.",
    Call("GET", "/"),
    (Argument("place", ""),),
    (
        Option("-t --time", "", table.SECONDS),
        Option("-ttl --messageTTL", ""),
        Option("-e --enable", "", table.FLAG),
        Option("-f --force", "", table.FLAG),
        Option("-sbs --size", "", table.FLAG, default=True),
        Option("-g --global", "", table.MARK),
        Option("-p --property", "", table.PAIRS),
        Option("-n --count", "", table.INTEGER, default=1),
    ),
)


def values(*words: str, shared: OptionReader | None = None) -> dict[str, Any]:
    return parse_command(COMMAND, words, shared or shared_reader()).values


def test_options_stand_before_and_behind_arguments() -> None:
    assert values("-t", "3h", "here", "--force")["time"] == 10_800
    assert values("here", "-ttl", "5")["messageTTL"] == "5"
    assert values("--", "-t")["place"] == "-t"


def test_a_value_may_be_attached_and_may_begin_with_a_hyphen() -> None:
    assert values("here", "--time=3h")["time"] == 10_800
    assert values("here", "-t=3h")["time"] == 10_800
    assert values("here", "-t", "-1")["time"] == -1
    assert values("here", "-n5")["count"] == 5


def test_flags_may_be_written_together() -> None:
    found = values("here", "-ef")
    assert found["enable"]
    assert found["force"]


def test_a_flag_turns_its_default_around() -> None:
    assert values("here")["size"] is True
    assert values("here", "-sbs")["size"] is False
    assert values("here")["force"] is False
    assert values("here")["global"] is None
    assert values("here", "-g")["global"] is True


def test_pairs_add_up_and_defaults_hold() -> None:
    found = values("here", "-p", "a=b", "-p", "c=d")
    assert found["property"] == {"a": "b", "c": "d"}
    assert found["count"] == 1


def test_options_of_the_connection_may_stand_behind_the_command() -> None:
    shared = shared_reader()
    values("here", "--admin-url", "http://h:1", "-o", "json", shared=shared)
    assert shared.values == {"webServiceUrl": "http://h:1", "form": "json"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "Missing required parameter: '<place>'"),
        (("a", "b"), "Unmatched argument at index 1: 'b'"),
        (("a", "--nope"), "Unknown option: '--nope'"),
        (("a", "-ex"), "Unknown option: '-ex'"),
        (("a", "-t"), "Missing required parameter for option '-t'"),
        (("a", "-t", "--force"), "Missing required parameter for option '-t'"),
        (("a", "-t", "3z"), "Invalid value for option '--time': Invalid time unit 'z'"),
        (("a", "--force=maybe"), "'maybe' is not a boolean"),
        (("a", "-o", "xml"), "'xml' is not one of text, table, wide, json, yaml"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_wrong(words: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        values(*words)
    assert complaint in str(caught.value)


def test_help_is_asked_for_anywhere() -> None:
    assert parse_command(COMMAND, ["--help"], shared_reader()).wants_help
    assert parse_command(COMMAND, ["here", "-h"], shared_reader()).wants_help
    assert parse_command(COMMAND, ["-v"], shared_reader()).wants_version
