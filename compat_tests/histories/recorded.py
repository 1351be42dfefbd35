"""What Apache's broker made of some histories, kept in a file, so that ours is held to it without Java.

`python -m compat_tests.histories --seed 1 --count 30 --record` makes the file anew, which is necessary when `steps`
draws other histories from the same seeds.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from compat_tests.histories.replay import Answer, Replay

RECORDED_MAX = 25
PATH = Path(__file__).with_name("apaches_replays.json")


def write(replays: Mapping[int, Replay]) -> None:
    """Writes the replays of the first histories, by their seeds."""
    lines = [f'"{seed}": {json.dumps(asdict(replay))}' for seed, replay in islice(replays.items(), RECORDED_MAX)]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read() -> dict[int, Replay]:
    """Returns the replays by the seeds of their histories."""
    return {
        int(seed): Replay(
            {int(number): Answer(**answer) for number, answer in stored["answers"].items()},
            stored["looks"],
            stored["views"],
        )
        for seed, stored in json.loads(PATH.read_text()).items()
    }
