"""What `magnetar completion` offers. `tests/server/tools/admin/test_completion_scripts.py` runs the scripts."""

import argparse

import pytest

from magnetar.server.commands.completion import candidates
from magnetar.server.commands.main import COMMANDS, main
from magnetar.server.tools.admin.completion_scripts import SCRIPTS


def test_the_commands_that_the_help_lists_are_offered() -> None:
    assert candidates([""]) == candidates([]) == list(COMMANDS)
    assert candidates(["std"]) == []
    assert candidates(["auto"]) == ["autorecovery"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("completion ", ["bash", "zsh", "fish"]),
        ("check co", ["connection"]),
        ("bookie --log-l", ["--log-level"]),
        ("bookie --log-level ", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("bookie --log-level INFO --log-f", ["--log-format"]),
        ("why my-topic my-sub --admin-u", ["--admin-url"]),
        ("produce ", []),  # any topic
        ("standalone --data-dir ", []),  # any folder; the shell offers them
        ("leaks exp", ["explain"]),
        ("admin topics stats-", ["stats-internal"]),
        ("nonsense ", []),
        ("leaks nonsense ", []),
    ],
)
def test_what_may_follow_comes_from_the_command_s_parser(line: str, offered: list[str]) -> None:
    assert candidates(line.split(" ")) == offered


def test_options_are_offered_where_a_command_takes_no_more_values() -> None:
    assert {"--conf", "--zookeeper"} & {*candidates(["bookie", ""])} == {"--conf"}


def test_every_command_completes_its_options() -> None:
    """A parser that the rules cannot read would fail here."""
    for command in COMMANDS:
        if command != "admin":
            assert "--help" in candidates([command, "--"]), command


def test_scripts_and_words_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, script in SCRIPTS.items():
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == script
    assert main(["completion", "words", "--", "bookie", "--log-level", "D"]) == 0
    assert capsys.readouterr().out == "DEBUG\n"


def test_hidden_options_are_not_offered() -> None:
    from magnetar.server.commands.completion_rules import next_words

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--shown")
    parser.add_argument("--hidden", help=argparse.SUPPRESS)
    assert next_words(parser, (), "--") == ["--shown"]
