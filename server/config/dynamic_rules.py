"""Decides which configuration keys may change while the server runs, to what values, and with what effect. No I/O.

Apache takes a value of the wrong type and then ignores it; these rules refuse it. Source: BrokersBase
(updateDynamicConfiguration, deleteDynamicConfiguration), BrokerService.isDynamicConfiguration.
"""

import re
from collections.abc import Iterable, Mapping

from magnetar.server.config.dynamic_keys import DYNAMIC_KEYS, JavaType
from magnetar.server.config.honoured_keys import KEYS, NOT_ABOVE
from magnetar.server.config.key_kinds import Value

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def is_dynamic(name: str) -> bool:
    return name in DYNAMIC_KEYS


def fault_of(name: str, text: str) -> str | None:
    """Returns why a dynamic key cannot have this value, or None when the value is valid. The value of a key without
    effect on this broker must have the type that Apache's brokers read, because Apache's brokers may be in the
    cluster."""
    key = KEYS.get(name)
    expected = DYNAMIC_KEYS[name].value
    if key is not None:
        try:
            key.parse(text)
        except ValueError:
            expected = key.expected
        else:
            return None
    elif _has_type(DYNAMIC_KEYS[name], text):
        return None
    shown = "(hidden)" if key is not None and key.is_secret else text
    return f"Invalid dynamic-config value: {name}={shown}: expected {expected}"


def _has_type(kind: JavaType, text: str) -> bool:
    match kind:
        case JavaType.BOOLEAN:
            return text.lower() in ("true", "false")
        case JavaType.INT:
            return _WHOLE.fullmatch(text) is not None and -INT_MAX - 1 <= int(text) <= INT_MAX
        case JavaType.LONG:
            return _WHOLE.fullmatch(text) is not None and -LONG_MAX - 1 <= int(text) <= LONG_MAX
        case JavaType.DOUBLE:
            return _NUMBER.fullmatch(text) is not None
        case JavaType.TEXT:
            return True


def fields_of(record: Mapping[str, str]) -> tuple[dict[str, Value], list[str]]:
    """Returns the values that the record sets, by the field names of the settings classes, and the faults of the
    record's other keys. A key without effect on this broker is left out."""
    values: dict[str, Value] = {}
    faults: list[str] = []
    for name, text in record.items():
        if not is_dynamic(name):
            faults.append(f"{name} cannot change while brokers run")
            continue
        fault = fault_of(name, text)
        if fault is not None:
            faults.append(fault)
        elif name in KEYS:
            values |= dict.fromkeys(KEYS[name].fields, KEYS[name].parse(text))
    return values, faults


def contradiction(values: Mapping[str, object]) -> str | None:
    """Returns a sentence about two values that contradict each other, or None when there is no contradiction. `values`
    holds the values of one settings class, by field."""
    for small, large in NOT_ABOVE:
        low, high = values.get(KEYS[small].fields[0]), values.get(KEYS[large].fields[0])
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            return f"{small}={low} must not exceed {large}={high}"
    return None


def without_effect(names: Iterable[str], held: Iterable[str]) -> list[str]:
    """Returns the keys among `names` that change no field of `held`."""
    known = set(held)
    return [name for name in names if name not in KEYS or not known & set(KEYS[name].fields)]


def text_of(value: object) -> str:
    """Returns the text of a value as it stands in broker.conf."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
