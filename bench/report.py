"""The table that `python -m bench` prints, and the same as JSON."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.rows import Figures, Row

HEADER = ("row", "unit", "goal", "", "Magnetar", "Apache", "times better")


def table(rows: Sequence[Row], ours: Figures, theirs: Figures | None) -> str:
    """Returns the table. Without `theirs` it shows Apache's documented figures, marked with a *."""
    shown = [row for row in rows if row.key in ours or (theirs and row.key in theirs)]
    lines: list[Sequence[str]] = [HEADER, *(cells(row, ours, theirs) for row in shown)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    text = [layout(line, widths) for line in lines]
    text.insert(1, "-" * len(text[0]))
    if theirs is None:
        text.append("* documented, not measured in this run: --peer LIB_DIR measures it")
    return "\n".join(text)


def layout(line: Sequence[str], widths: Sequence[int]) -> str:
    left = 2
    cut = [
        cell.ljust(width) if at < left else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cut).rstrip()


def cells(row: Row, ours: Figures, theirs: Figures | None) -> tuple[str, ...]:
    mine = ours.get(row.key)
    peer = row.apache if theirs is None else theirs.get(row.key)
    judged = mine is not None and (row.goal is not None or (row.goal_ratio is not None and peer is not None))
    verdict = "" if mine is None or not judged else "ok" if row.reached(mine, peer) else "MISSED"
    return (
        row.title,
        row.unit,
        goal_of(row),
        verdict,
        "" if mine is None else number(mine),
        "" if peer is None else number(peer) + ("*" if theirs is None else ""),
        "" if mine is None or peer is None else number(row.ratio(mine, peer)),
    )


def goal_of(row: Row) -> str:
    """Returns the goal as text; empty when the row has none."""
    if row.goal is not None:
        sign = "≥" if row.more_is_better else "≤"
        return f"{sign} {number(row.goal)}"
    return "" if row.goal_ratio is None else f"≥ {row.goal_ratio:g} × Apache"


def number(value: float) -> str:
    """Returns the number with three significant digits at most."""
    if value == float("inf"):
        return "∞"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def write_json(path: Path, rows: Sequence[Row], ours: Figures, theirs: Figures | None) -> None:
    content = {
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "rows": [
            {
                "key": row.key,
                "title": row.title,
                "unit": row.unit,
                "goal": row.goal,
                "magnetar": ours.get(row.key),
                "apache": (theirs or {}).get(row.key),
                "apache_documented": row.apache,
            }
            for row in rows
        ],
        "at_sizes": {key: figure for key, figure in ours.items() if "@" in key},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
