"""Finds the words that may follow an unfinished command line, by the parser that will read it.

argparse has no public way to ask a parser for its arguments, so these rules read `_actions`, as shtab and
argcomplete do."""

import argparse
from collections.abc import Iterable, Sequence

MANY = ("*", "+", argparse.REMAINDER)


def next_words(parser: argparse.ArgumentParser, before: Sequence[str], last: str) -> list[str]:
    """Returns the words that may follow the words `before`: the values of an option that awaits one, otherwise options
    if `last` begins like one, otherwise subcommands or values. Where any text may stand, the list is empty, and the
    shell offers files; but when the command takes no more values, the options are listed."""
    options = {name: action for action in parser._actions for name in action.option_strings}
    places = [action for action in parser._actions if not action.option_strings]
    awaiting: argparse.Action | None = None
    for at, word in enumerate(before):
        if awaiting is not None:
            awaiting = None
        elif word.startswith("-"):
            option = options.get(word)
            awaiting = option if option is not None and option.nargs != 0 else None
        elif places:
            if isinstance(places[0], argparse._SubParsersAction):
                inner = places[0].choices.get(word)
                return [] if inner is None else next_words(inner, before[at + 1 :], last)
            if places[0].nargs not in MANY:
                del places[0]
    if awaiting is not None:
        return _values(awaiting)
    if places and not last.startswith("-"):
        return _values(places[0])
    shown = (action for action in parser._actions if action.help != argparse.SUPPRESS)
    return [name for action in shown for name in action.option_strings]


def _values(action: argparse.Action) -> list[str]:
    """Returns the values that an argument may have. Of subcommands these are the ones that the help shows."""
    if isinstance(action, argparse._SubParsersAction):
        return [choice.dest for choice in action._get_subactions()]
    choices: Iterable[object] = action.choices or ()
    return [str(choice) for choice in choices]
