"""Runs work in steps (`magnetar.server.process.turns`) to its end at once."""

from typing import TypeVar

from magnetar.server.process.turns import Steps

T = TypeVar("T")


def finish(steps: Steps[T]) -> T:
    """Runs all steps and returns the result. Raises what the work raises."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
