"""Names the parts of the tree where bugs are planted, and draws a sample."""

import random
from pathlib import Path

from tests.mutants.operators import Mutant, lines_of, mutants_of

AREAS = (
    "storage",
    "metadata",
    "server/topics",
    "server/protocol",
    "server/security",
    "server/schema",
    "pulsar_proto",
    "spark/source",
)
GENERATED = "pulsar_proto/pb/"


def area_of(path: str) -> str:
    return next(area for area in AREAS if path.startswith(f"{area}/"))


def sources(root: Path, areas: tuple[str, ...] = AREAS) -> list[str]:
    found = (path.relative_to(root).as_posix() for area in areas for path in (root / area).rglob("*.py"))
    return sorted(path for path in found if not path.startswith(GENERATED))


def sample(root: Path, paths: list[str], count: int, seed: int) -> list[Mutant]:
    """Draws `count` lines from all lines that can be mutated, and one mutant for each line."""
    rng = random.Random(seed)
    lines = [line for path in paths for line in lines_of(mutants_of(path, (root / path).read_bytes()))]
    return [rng.choice(line) for line in rng.sample(lines, min(count, len(lines)))]
