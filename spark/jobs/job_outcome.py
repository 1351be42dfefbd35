"""The end of a job: what the job counted, which checks failed, and the sentence that says what stopped the job."""

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

INTERRUPTED = "interrupted; the same command goes on from here"


class JobFailed(Exception):
    """Ends the job with exit code 1. The error's text is a sentence for people."""


class NothingToDo(Exception):
    """Ends a job before Java starts, with exit code 0, because no message came since the last run."""


@dataclass
class JobOutcome:
    """The results that the job prints at its end. `problems` has a sentence for each check that failed."""

    job: str
    read: int = 0
    written: int = 0
    skipped: int = 0
    parked: int = 0
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def finish(outcome: JobOutcome, began: float, how: str) -> int:
    """Prints what the job has done since `began` (monotonic seconds), as JSON or as text (`how`), and returns the exit
    code."""
    outcome.seconds = round(time.monotonic() - began, 3)
    if how == "json":
        print(json.dumps(asdict(outcome), default=str), flush=True)
    else:
        print(
            f"{outcome.job}: read {outcome.read:,}, wrote {outcome.written:,}, skipped {outcome.skipped:,}, "
            f"parked {outcome.parked:,} in {outcome.seconds:.1f} s"
        )
        for name, value in outcome.details.items():
            of_topics = value if isinstance(value, dict) else {}
            print(f"  {name}:" if of_topics else f"  {name}: {'none' if value == {} else value}")
            for topic, each in of_topics.items():
                print(f"    {topic}: {_in_words(each)}")
    for problem in outcome.problems:
        print(problem if problem == INTERRUPTED else f"check failed: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0


def _in_words(value: Any) -> str:
    """Returns what a detail of one topic says: its numbers by name, or its text."""
    return ", ".join(f"{name} {number:,}" for name, number in value.items()) if isinstance(value, dict) else str(value)
