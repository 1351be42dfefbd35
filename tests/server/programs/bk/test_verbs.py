"""The table of `magnetar bk`'s verbs: each has an implementation, help with examples, and options that parse."""

import argparse
import inspect
import shlex
from importlib import import_module

import pytest

from magnetar.server.commands.main import build_parser, main
from magnetar.server.programs.bk import verb_arguments as arguments
from magnetar.server.programs.bk.verbs import GROUPS, Verb

VERBS = tuple(verb for group in GROUPS.values() for verb in group)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_has_an_implementation(verb: Verb) -> None:
    module, _, name = verb.run.partition(":")
    assert inspect.iscoroutinefunction(getattr(import_module(f"magnetar.server.programs.bk.{module}"), name))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_shows_examples_that_parse(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bk", verb.name, "--help"])
    assert ended.value.code == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  magnetar bk ")]
    assert shown
    for line in shown:
        words = shlex.split(line, comments=True)[1:]
        assert build_parser().parse_args(words).verb == verb.name


def test_names_are_different_and_listed_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    names = [verb.name for verb in VERBS]
    assert len(set(names)) == len(names)
    with pytest.raises(SystemExit):
        main(["bk", "--help"])
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in names)


def test_common_options_may_stand_before_and_behind_the_verb() -> None:
    for words in (["--json", "--conf", "f", "listbookies"], ["listbookies", "--json", "--conf", "f"]):
        parsed = build_parser().parse_args(["bk", *words])
        assert (parsed.json, str(parsed.conf), parsed.uri) == (True, "f", None)


@pytest.mark.parametrize(
    ("text", "number"), [("3", 3), ("0x1f", 31), ("000000000000001f.journal", 31), ("0000000a.log", 10)]
)
def test_files_are_named_by_number_or_name(text: str, number: int) -> None:
    assert arguments.file_id(text) == number


@pytest.mark.parametrize("text", ["", "x", "1g.log"])
def test_other_names_of_files_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.file_id(text)
