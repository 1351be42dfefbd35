"""How answers look to people: tables without borders, and YAML."""

import json
from collections.abc import Sequence
from typing import Any

from magnetar.server.tools.admin.jackson_rules import to_string

CELL_CHARACTERS_MAX = 60
"""Longer texts are cut in tables; `wide` and the other formats show them whole."""
COLUMNS_MAX = 8
"""Objects with more fields are shown one below the other instead of as rows."""
_ODD = set(":#{}[],&*!|>'\"%@`\n\t\\")
_WORDS = ("", "null", "true", "false", "yes", "no", "on", "off", "~", "-", "?")


def table(value: Any, *, wide: bool = False) -> str:
    """Returns aligned columns for an object and for a list of objects, with what is nested indented behind its key. A
    list of texts becomes lines."""
    if isinstance(value, dict | list):
        return visible("\n".join(_lines(value, "", wide=wide))) or "(none)"
    return "(not set)" if value is None else visible(to_string(value))


def visible(text: str) -> str:
    """Returns the text with control characters shown by their number, so that a name that somebody gave a topic cannot
    move the cursor or change the colours of a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def _lines(value: Any, indent: str, *, wide: bool) -> list[str]:
    if isinstance(value, dict):
        flat = {str(key): item for key, item in value.items() if not _is_nested(item)}
        lines = _aligned([[key, _cell(item, wide=wide)] for key, item in flat.items()], indent)
        for key, item in value.items():
            if _is_nested(item):
                lines += [f"{indent}{key}", *_lines(item, indent + "  ", wide=wide)]
        return lines
    if value and all(isinstance(item, dict) for item in value):
        columns = list(dict.fromkeys(key for item in value for key in item))
        if len(columns) <= COLUMNS_MAX and not any(_is_nested(item.get(key)) for item in value for key in columns):
            rows = [[column.upper() for column in columns]]
            rows += [[_cell(item.get(column), wide=wide) for column in columns] for item in value]
            return _aligned(rows, indent)
    lines = []
    for item in value:
        inner = _lines(item, indent + "  ", wide=wide) if _is_nested(item) else [indent + _cell(item, wide=True)]
        lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]] if _is_nested(item) else inner
    return lines


def _is_nested(value: Any) -> bool:
    """Returns whether a value has no place in a cell: an object, or a list of more than texts and numbers."""
    if isinstance(value, list):
        return any(isinstance(item, dict | list) for item in value)
    return isinstance(value, dict) and bool(value)


def _cell(value: Any, *, wide: bool) -> str:
    if value is None or value == {}:
        return "-"
    text = ", ".join(map(to_string, value)) or "-" if isinstance(value, list) else to_string(value)
    text = text.replace("\n", " ")
    return text if wide or len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"


def _aligned(rows: Sequence[Sequence[str]], indent: str) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [(indent + line).rstrip() for line in padded]


def yaml(value: Any) -> str:
    """Returns a value of JSON as YAML in block style."""
    return "\n".join(_yaml(value, ""))


def _yaml(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            lines += _member(f"{indent}{_yaml_text(str(key))}:", item, indent + "  ")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            inner = _yaml(item, indent + "  ")
            lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]]
        return lines
    return [indent + _yaml_scalar(value)]


def _member(head: str, item: Any, indent: str) -> list[str]:
    if isinstance(item, dict | list) and item:
        return [head, *_yaml(item, indent)]
    return [f"{head} {_yaml_scalar(item)}"]


def _yaml_scalar(value: Any) -> str:
    return _yaml_text(value) if isinstance(value, str) else json.dumps(value)


def _yaml_text(text: str) -> str:
    """Returns a text bare where every reader of YAML takes it for a text, else in double quotes."""
    plain = text and not _ODD.intersection(text) and text.lower() not in _WORDS and text == text.strip()
    if plain and not text[0].isdigit() and text[0] not in "+-.=?<" and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
