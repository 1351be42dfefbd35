"""Computes how long to wait before the next try of an action that keeps failing. All retries with growing pauses use
this schedule."""

DOUBLINGS_MAX = 30
"""The exponent does not grow beyond this number, however long an action has been failing."""


def backoff(failures: int, first: float, longest: float) -> float:
    """Returns the pause after `failures` failures in a row, which are at least 1: `first` after the first one, twice as
    long after each further one, at most `longest`. The unit is that of `first` and `longest`."""
    return min(longest, first * 2.0 ** min(failures - 1, DOUBLINGS_MAX))
