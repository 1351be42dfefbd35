"""What there is to say about each configuration key: which program honours it, its default, its effect, and whether an
administrator can change it while brokers run. The tables of `server/config` and the settings classes are the source."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from magnetar.server.config.broker_config import LIKENESS_MIN
from magnetar.server.config.dynamic_keys import DYNAMIC_KEYS
from magnetar.server.config.dynamic_rules import text_of
from magnetar.server.config.honoured_keys import UNSAFE_TO_IGNORE
from magnetar.server.config.key_kinds import PORT_OFF, Key
from magnetar.server.config.known_keys import KNOWN
from magnetar.server.config.missed_keys import NOT_HERE
from magnetar.server.config.unused_reasons import reason_of
from magnetar.server.tools.configuration.field_texts import field_texts
from magnetar.server.tools.configuration.program_settings import CHANGING, Program, programs

REQUIRED = {("broker", "clusterName"), ("broker", "metadataStoreUrl")}
"""The keys without which a program does not start, by program."""

_LABEL = re.compile(r"^(?:Process|(?P<key>[\w]+)(?:, \w+)?): (?=\S)")
"""Matches what some descriptions begin with: the key's name and unit, for readers of the code."""
_QUOTED = re.compile(r"`([a-z_0-9]+)`")


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One key of one program."""

    name: str
    program: str
    default: str
    """The text that stands for the default in a configuration file; empty for nothing."""
    unit: str
    accepts: str
    """The values that the key takes, in words."""
    effect: str
    is_dynamic: bool
    """Whether `magnetar admin brokers update-dynamic-config` changes the key while brokers run."""


@cache
def entries() -> tuple[KeyEntry, ...]:
    """Returns the entries of all keys that have an effect, program by program, in the order of their tables."""
    return tuple(entry for program in programs() for entry in _of_program(program))


@cache
def honoured() -> frozenset[str]:
    """Returns the names of all keys that have an effect in some program."""
    return frozenset(entry.name for entry in entries())


def likely_key(name: str) -> str:
    """Returns a question that names the key that was probably meant, or nothing when no key resembles `name`."""
    known = KNOWN | honoured()
    likely = get_close_matches(name, known, n=1, cutoff=LIKENESS_MIN)
    return f" (is it {likely[0]}?)" if likely else ""


def without_effect(name: str) -> str | None:
    """Returns a sentence about a key of Apache's that has no effect here, or None for any other name."""
    if name in honoured():
        return None
    if name in NOT_HERE:
        return NOT_HERE[name].says
    if name in UNSAFE_TO_IGNORE:
        return f"turning it on stops the start, because {UNSAFE_TO_IGNORE[name]}"
    if name not in KNOWN:
        return None
    return reason_of(name) or "nothing here corresponds to it"


def _of_program(program: Program) -> Iterator[KeyEntry]:
    for key in program.keys.values():
        if not key.fields:
            yield KeyEntry(key.name, program.name, "", "", key.expected, "A protection that is not here.", False)
            continue
        found = program.setting_of(key)
        if found is None:
            continue
        settings, field = found
        value = getattr(settings, field)
        yield KeyEntry(
            key.name,
            program.name,
            "(required)" if (program.name, key.name) in REQUIRED else _default(key, field, value),
            key.unit,
            key.expected,
            _effect(program, key),
            key.name in DYNAMIC_KEYS and _is_held(program, key),
        )


def _is_held(program: Program, key: Key) -> bool:
    return any(isinstance(each, CHANGING) and hasattr(each, name) for each in program.settings for name in key.fields)


def _default(key: Key, field: str, value: object) -> str:
    if value == PORT_OFF and key.empty == PORT_OFF:
        return "off"
    if key.unit == "milliseconds" and field.endswith("_sec") and isinstance(value, int | float):
        value = value * 1000  # The key is in milliseconds, while the field of the settings class is in seconds.
    return f"{value:g}" if isinstance(value, float) and value < 1_000_000 else text_of(value)


def _effect(program: Program, key: Key) -> str:
    """Returns the description of the key's field, for readers who do not know the code."""
    kinds: list[type] = [type(settings) for settings in program.settings]
    described = (field_texts(kind).get(field, "") for field in key.fields for kind in kinds)
    text = _LABEL.sub("", next(filter(None, described), ""))
    text = _QUOTED.sub(lambda match: f"`{_key_names().get(match[1], match[1])}`", text)
    return text[:1].upper() + text[1:]


@cache
def _key_names() -> dict[str, str]:
    """Returns the name of the key that sets a field, by field."""
    return {
        field: key.name for program in reversed(programs()) for key in program.keys.values() for field in key.fields
    }
