"""Reads the words of a command line by the rules of picocli, with which pulsar-admin is made.

argparse is not used, because its rules differ: options such as `-ttl` next to `-t`, values that begin with a hyphen
(`-t -1`), and flags written together (`-ef`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import (
    FLAG,
    NAMESPACE,
    NON_PERSISTENT_TOPIC,
    PERSISTENT_TOPIC,
    TOPIC,
    Argument,
    Command,
    Option,
)
from magnetar.server.tools.admin.name_rules import parse_namespace, parse_topic
from magnetar.server.tools.admin.value_rules import option_value

HELP = ("-h", "--help")
VERSION = ("-v", "--version")
_DOMAINS = {PERSISTENT_TOPIC: "persistent", NON_PERSISTENT_TOPIC: "non-persistent"}


class Parsed(NamedTuple):
    """The values of a command line by key. `wants_help` and `wants_version` are set by the options of that name; the
    values may be incomplete then."""

    values: dict[str, Any]
    wants_help: bool = False
    wants_version: bool = False


class OptionReader:
    """Takes words one by one and keeps the values of the options among them."""

    def __init__(self, options: Sequence[Option]) -> None:
        self._by_name = {name: option for option in options for name in option.names.split()}
        self.values: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def read(self, words: Sequence[str], at: int) -> int:
        """Reads the option at `words[at]` with its value. Returns the position of the next word, or `at` when the word
        is no option of these. Raises UsageError."""
        word = words[at]
        if word in self._by_name:
            option = self._by_name[word]
            if not option.takes_value:
                self._flag(option)
                return at + 1
            if at + 1 >= len(words) or words[at + 1] in self._by_name:
                raise UsageError(f"Missing required parameter for option '{word}' (<{option.key}>)")
            self._value(option, words[at + 1])
            return at + 2
        name, equals, value = word.partition("=")
        if equals and name in self._by_name:
            self._attached(name, value)
            return at + 1
        return at + 1 if self._written_together(word) else at

    def _attached(self, name: str, value: str) -> None:
        option = self._by_name[name]
        if option.takes_value:
            self._value(option, value)
        elif value not in ("true", "false"):
            raise UsageError(f"Invalid value for option '{name}': '{value}' is not a boolean")
        elif value == "true":
            self._flag(option)

    def _written_together(self, word: str) -> bool:
        """Reads `-ef` as `-e -f`, and `-n5` as `-n 5`."""
        if word[:1] != "-" or word[:2] == "--" or len(word) < 3:
            return False
        options = []
        for index, letter in enumerate(word[1:], start=1):
            option = self._by_name.get(f"-{letter}")
            if option is None:
                return False
            options.append(option)
            if option.takes_value:
                if not word[index + 1 :]:
                    return False
                break
        for option in options[:-1]:
            self._flag(option)
        last = options[-1]
        if last.takes_value:
            self._value(last, word[len(options) + 1 :])
        else:
            self._flag(last)
        return True

    def _flag(self, option: Option) -> None:
        self.values[option.key] = not option.default if option.kind == FLAG else True

    def _value(self, option: Option, text: str) -> None:
        text = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
        try:
            self.values[option.key] = option_value(option, text, self.values.get(option.key))
        except ValueError as error:
            shown = next((each for each in option.names.split() if each.startswith("--")), option.names)
            raise UsageError(f"Invalid value for option '{shown}': {error}") from None


def parse_command(command: Command, words: Sequence[str], shared: OptionReader, offset: int = 0) -> Parsed:
    """Reads the words after the command's name. Options that the command does not have may be those of `shared`, which
    belong to all commands. `offset` is how many words stood before these. Raises UsageError."""
    own = OptionReader(command.options)
    places: list[int] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            places += range(at + 1, len(words))
            break
        after = own.read(words, at) if word[:1] == "-" and len(word) > 1 else at
        if after == at and word[:1] == "-":
            after = shared.read(words, at)
        if after > at:
            at = after
            continue
        if word in HELP:
            return Parsed({}, wants_help=True)
        if word in VERSION:
            return Parsed({}, wants_version=True)
        if word[:1] == "-" and len(word) > 1 and not word[1:2].isdigit():
            raise UsageError(f"Unknown option: '{word}'")
        places.append(at)
        at += 1
    values = {option.key: _default(option) for option in command.options}
    values |= own.values
    most = len(words) if any(argument.many for argument in command.arguments) else len(command.arguments)
    if len(places) > most:
        extra = places[most]
        raise UsageError(f"Unmatched argument at index {offset + extra}: '{words[extra]}'")
    arguments = [words[place] for place in places]
    _check_required(command, own.values, arguments)
    values |= _positionals(command.arguments, arguments)
    return Parsed(values)


def _default(option: Option) -> Any:
    return bool(option.default) if option.kind == FLAG else option.default


def _check_required(command: Command, given: dict[str, Any], arguments: Sequence[str]) -> None:
    missing = [
        f"'{option.names.split()[-1]}=<{option.key}>'"
        for option in command.options
        if option.required and option.key not in given
    ]
    missing += [
        f"'<{argument.key}>'"
        for argument in command.arguments[len(arguments) :]
        if not (argument.many or argument.optional)
    ]
    if len(missing) == 1:
        kind = "option" if missing[0][1] == "-" else "parameter"
        raise UsageError(f"Missing required {kind}: {missing[0]}")
    if missing:
        raise UsageError(f"Missing required options and parameters: {', '.join(missing)}")


def _positionals(arguments: Sequence[Argument], words: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    left = list(words)
    for argument in arguments:
        if argument.many:
            values[argument.key] = left
            left = []
        elif left:
            values[argument.key] = argument_value(argument, left.pop(0))
        else:
            values[argument.key] = None
    return values


def argument_value(argument: Argument, text: str) -> Any:
    """Returns the topic, the namespace or the text. Raises UsageError."""
    try:
        if argument.kind == NAMESPACE:
            return parse_namespace(text)
        if argument.kind in (TOPIC, PERSISTENT_TOPIC, NON_PERSISTENT_TOPIC):
            return parse_topic(text, _DOMAINS.get(argument.kind, ""))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return text
