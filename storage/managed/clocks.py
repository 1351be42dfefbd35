"""The two clocks of a managed ledger."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Clocks(NamedTuple):
    """The time of day, and a clock for measuring how much time has passed."""

    wall_ms: Callable[[], int]
    """The time of day, in ms since the epoch, for times that are stored or shown. This clock may jump."""
    monotonic_s: Callable[[], float] = time.monotonic
    """Seconds since some unspecified time, for durations and waits. This clock never jumps."""
