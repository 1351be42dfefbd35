"""Prints the report of a run: figures by area, and the change of each survivor."""

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.areas import AREAS, area_of
from tests.mutants.trial import Verdict


def change_of(verdict: Verdict, root: Path) -> str:
    """Returns the mutant's change as a diff."""
    mutant = verdict.mutant
    source = (root / mutant.path).read_bytes()
    before, after = source.decode().splitlines(), mutant.applied(source).decode().splitlines()
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    return "\n".join(f"    {line}" for line in lines)


def figures(verdicts: Sequence[Verdict], names: Mapping[Verdict, str], judged: Mapping[str, str]) -> list[list[str]]:
    rows = [["area", "mutants", "caught", "judged", "survived", "rate"]]
    for area in (*AREAS, "all"):
        here = [each for each in verdicts if area in ("all", area_of(each.mutant.path))]
        if not here:
            continue
        caught = sum(each.is_caught for each in here)
        known = sum(not each.is_caught and names[each] in judged for each in here)
        matter = len(here) - known
        rate = f"{100 * caught / matter:.1f} %" if matter else "-"
        rows.append([area, str(len(here)), str(caught), str(known), str(matter - caught), rate])
    return rows


def text(verdicts: Sequence[Verdict], judged: Mapping[str, str], root: Path) -> str:
    names = {each: each.mutant.name((root / each.mutant.path).read_bytes()) for each in verdicts}
    parts = []
    for each in sorted((each for each in verdicts if not each.is_caught), key=lambda each: names[each]):
        mutant = each.mutant
        said = f"{each.outcome} {each.tests} tests, {mutant.operator}"
        reason = judged.get(names[each])
        said = f"judged: {reason}" if reason else said
        parts.append(f"{mutant.path}:{mutant.line}  {said}\n  {names[each]}\n{change_of(each, root)}\n")
    table = figures(verdicts, names, judged)
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    parts += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    return "\n".join(parts)


def as_json(verdicts: Sequence[Verdict], judged: Mapping[str, str], root: Path, seed: int) -> str:
    rows = []
    for each in verdicts:
        mutant = each.mutant
        name = mutant.name((root / mutant.path).read_bytes())
        rows.append(
            {
                "path": mutant.path,
                "line": mutant.line,
                "name": name,
                "operator": mutant.operator,
                "outcome": each.outcome,
                "tests": each.tests,
                "by": each.by,
                "judged": judged.get(name),
            }
        )
    return json.dumps({"seed": seed, "mutants": rows}, indent=1)
