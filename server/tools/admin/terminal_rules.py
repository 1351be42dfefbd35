"""How answers look to people: tables without borders, and YAML."""

import json
from collections.abc import Sequence
from typing import Any

from magnetar.server.tools.admin.jackson_rules import compact, to_string

CELL_CHARACTERS_MAX = 60
"""Longer texts are cut in tables; `wide` and the other formats show them whole."""
_ODD = set(":#{}[],&*!|>'\"%@`\n\t\\")
_WORDS = ("", "null", "true", "false", "yes", "no", "on", "off", "~", "-", "?")


def table(value: Any, *, wide: bool = False) -> str:
    """Returns a table for a list of objects and for an object, and lines for everything else."""
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            return _rows_of_objects(value, wide=wide)
        return "\n".join(to_string(item) for item in value) if value else "(none)"
    if isinstance(value, dict):
        if not value:
            return "(none)"
        return _aligned([[str(key), _cell(item, wide=wide)] for key, item in value.items()])
    return "(not set)" if value is None else to_string(value)


def _rows_of_objects(items: Sequence[dict[str, Any]], *, wide: bool) -> str:
    columns = list(dict.fromkeys(key for item in items for key in item))
    rows = [[column.upper() for column in columns]]
    rows += [[_cell(item.get(column), wide=wide) for column in columns] for item in items]
    return _aligned(rows)


def _cell(value: Any, *, wide: bool) -> str:
    if value is None:
        return "-"
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        text = ", ".join(to_string(item) for item in value) or "-"
    else:
        text = value if isinstance(value, str) else compact(value)
    text = text.replace("\n", " ")
    return text if wide or len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


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
    return json.dumps(text, ensure_ascii=False)
