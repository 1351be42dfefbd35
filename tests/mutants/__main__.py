"""`python -m tests.mutants --count 300 [--seed N] [--area storage]` exits with 1 when the tests catch fewer than 95 %.

Each mutant meets the tests that run its line, nearest first, in a copy of the tree. The first run records which tests
those are, which takes minutes; later runs use that recording until `--record` asks for a new one.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import judged, report
from tests.mutants.areas import AREAS, sample, sources
from tests.mutants.operators import Mutant
from tests.mutants.recording import Recording, collect, record
from tests.mutants.trial import Copy, Verdict

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
RATE_WANTED = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants (default 300)")
    parser.add_argument("--seed", type=int, help="repeats the choice of an earlier run on the same tree")
    parser.add_argument("--area", action="append", choices=AREAS, help="plants there only; may be repeated")
    parser.add_argument("--file", action="append", metavar="PATH", help="plants there only; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="mutants beside each other (default 2)")
    parser.add_argument("--record", action="store_true", help="records anew which tests run which lines")
    at = parser.parse_args()
    seed = at.seed if at.seed is not None else random.SystemRandom().randrange(1 << 32)
    recorded = FOLDER / "recording"
    if at.record or not (recorded / "complete").exists():
        print("recording which tests run which lines: some minutes", flush=True)
        record(ROOT, recorded)
    chosen = sample(ROOT, at.file or sources(ROOT, tuple(at.area or AREAS)), at.count, seed)
    print(f"{len(chosen)} mutants, seed {seed}, commit {commit()}", flush=True)
    recording = Recording.load(recorded, ROOT)
    recording.keep(collect(ROOT))
    verdicts = try_all(chosen, recording, at.jobs)
    known = judged.read(judged.FILE.read_text())
    (FOLDER / "report.json").write_text(report.as_json(verdicts, known, ROOT, seed))
    said = report.text(verdicts, known, ROOT)
    (FOLDER / "report.txt").write_text(f"seed {seed}, commit {commit()}\n\n{said}\n")
    print(f"\n{said}\n\nalso in {FOLDER / 'report.txt'} and report.json, seed {seed}")
    return 0 if rate(verdicts, known) >= RATE_WANTED else 1


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def try_all(chosen: list[Mutant], recording: Recording, jobs: int) -> list[Verdict]:
    """Tries the mutants, prints each verdict as soon as it is known, and returns them in the order of the sample."""
    began = time.monotonic()
    copies: SimpleQueue[Copy] = SimpleQueue()
    done: list[Verdict] = []

    def judge(mutant: Mutant) -> Verdict:
        copy = copies.get()
        try:
            tests = recording.tests_of(mutant)
            verdict = copy.judge(mutant, tests, recording.seconds_of(tests))
        finally:
            copies.put(copy)
        done.append(verdict)
        caught = sum(each.is_caught for each in done)
        place = f"{mutant.path}:{mutant.line} {mutant.operator}"
        seconds = time.monotonic() - began
        print(f"{len(done)}/{len(chosen)} {seconds:.0f} s, {caught} caught: {place}: {verdict.outcome}", flush=True)
        return verdict

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copies.put(Copy(ROOT, Path(folder) / str(number)))
        return list(pool.map(judge, chosen))


def rate(verdicts: list[Verdict], known: dict[str, str]) -> float:
    """Returns the share of mutants that were caught, without those whose survival was judged to be of no
    consequence."""
    caught = sum(each.is_caught for each in verdicts)
    matter = [
        each
        for each in verdicts
        if each.is_caught or each.mutant.name((ROOT / each.mutant.path).read_bytes()) not in known
    ]
    return caught / len(matter) if matter else 1.0


if __name__ == "__main__":
    sys.exit(main())
