"""`python -m bench` measures Magnetar, with --peer Apache Pulsar too, and prints goals and figures side by side."""

import argparse
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.compiled import compiled_magnetar
from bench.machine import describe
from bench.page import Run, page
from bench.profile import LOADS, profile
from bench.report import table, write_json
from bench.rows import PAGE, SIGKILL, Row, chosen_rows
from bench.scenarios import SCENARIOS
from bench.sigkill import run_rounds
from bench.sizes import QUICK, Sizes, up_to
from compat_tests.apache import ApachePulsar
from compat_tests.harness import PEER_LIB_VARIABLE
from compat_tests.products import Magnetar, Product, interpreter

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 50
QUICK_ROUNDS = 5
PEER_HEAP_MB = 2048


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(slots=True)
class Measured:
    """The figures of one product, and the scenarios that ended with an error instead of figures."""

    figures: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def measure(products: Sequence[Product], rows: Sequence[Row], sizes: Sizes) -> list[Measured]:
    """Runs each scenario that a chosen row needs, with one product right after the other: a machine that others share
    may be half as quick a quarter of an hour later, and a ratio shall not tell that. A scenario that fails does not
    lose the figures of the others. Returns the figures of each product."""
    found = [Measured() for _ in products]
    for name, scenario in SCENARIOS.items():
        if any(row.scenario == name for row in rows):
            for product, measured in zip(products, found, strict=True):
                began = time.monotonic()
                try:
                    measured.figures |= scenario(product, sizes)
                except Exception:
                    traceback.print_exc()
                    measured.failed.append(f"{product.name} {name}")
                say(f"{product.name} {name}: {time.monotonic() - began:.0f} s")
    return found


def compile_modules() -> None:
    """Compiles the modules of the tree, as pip does when it installs them. Otherwise a start would be measured that
    compiles six hundred modules first, which takes as long as the start itself."""
    folders = ("magnetar", "server", "storage", "metadata", "pulsar_proto")
    subprocess.run([*interpreter(), "-m", "compileall", "-q", *(ROOT / each for each in folders)], check=True)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--peer", type=Path, metavar="LIB_DIR", help="folder of Apache Pulsar's jars: measure it as well"
    )
    parser.add_argument("--only", metavar="ROW,…", help="rows or scenarios by name")
    parser.add_argument("--quick", action="store_true", help="smaller loads, one run each: about two minutes")
    parser.add_argument("--rounds", type=int, help=f"SIGKILL rounds (default {ROUNDS}, quick {QUICK_ROUNDS})")
    parser.add_argument("--seed", type=int, help="of the SIGKILL rounds' choices")
    parser.add_argument("--topics", type=int, metavar="N", help="the largest number of topics of the scenario `scale`")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help=f"write the figures there as a page; measures {', '.join(PAGE)} unless --only names others",
    )
    parser.add_argument(
        "--compiled", action="store_true", help="measure a wheel with compiled modules instead of the sources"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--profile", choices=list(LOADS), help="print the server's ten hottest functions instead")
    return parser


def main() -> int:
    parser = build_parser()
    arguments = parser.parse_args()
    if arguments.profile:
        print(profile(arguments.profile))
        return 0
    try:
        rows = chosen_rows(arguments.only or (",".join(PAGE) if arguments.page else None))
    except ValueError as error:
        parser.error(str(error))
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.topics:
        sizes = replace(sizes, scale_topics=up_to(arguments.topics))
    if arguments.peer:
        os.environ[PEER_LIB_VARIABLE] = str(arguments.peer)  # the bookies' scenario finds Apache's client there
    compile_modules()
    machine = describe()
    say(machine)
    peers = [ApachePulsar(arguments.peer, PEER_HEAP_MB)] if arguments.peer else []
    with compiled_magnetar() if arguments.compiled else nullcontext(Magnetar()) as magnetar:
        ours, *theirs = measure([magnetar, *peers], rows, sizes)
    if any(row.scenario == SIGKILL for row in rows):
        rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
        ours.figures |= run_rounds(rounds, arguments.seed, say)
    their_figures = theirs[0].figures if theirs else None
    print(machine)
    print(table(rows, ours.figures, their_figures))
    if arguments.json:
        write_json(arguments.json, rows, ours.figures, their_figures)
    failed = [each for measured in (ours, *theirs) for each in measured.failed]
    if failed:
        print(f"NOT MEASURED, because of the errors above: {', '.join(failed)}")
        return 1
    if arguments.page:
        run = Run(machine, sizes, arguments.compiled, bool(theirs))
        arguments.page.write_text(page(rows, ours.figures, their_figures, run))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
