"""Speculative reads: a read asks one source after the other. When the sources that it has asked stay silent, it asks
the next one before they fail.

With a patience of 2 s and three replicas, when the second one answers:

    0 s       2 s            5 s  6 s
    A────────────────────────┤ cancelled
              B──────────────┤ answers: this is returned
                                  C would be asked now

When a source fails, the next one is asked at once and the patience stays as it is. The patience grows only when it has
passed without any answer. The first answer is right, because an entry's bytes never change and were verified.

Source: DefaultSpeculativeRequestExecutionPolicy of BookKeeper's client.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.read_rules import most_telling_failure

T = TypeVar("T")

Question = Callable[[], Coroutine[Any, Any, T]]

BACKOFF = 2
"""The factor by which the patience grows each time that it has passed without an answer."""


async def first_good(questions: Sequence[Question[T]], patience: float) -> T:
    """Returns the first good answer, and cancels the questions that are still open.

    A question that fails is followed by the next one at once. When all sources that were asked are silent for
    `patience` seconds, the next one is asked as well, and the patience doubles; a patience of 0 means to wait for each
    answer. There must be at least one question. When all questions fail, raises the most informative LedgerError.
    """
    if not patience or len(questions) == 1:
        return await _one_by_one(questions)
    failures: list[LedgerError] = []
    running: set[asyncio.Task[T]] = set()
    left = list(reversed(questions))
    try:
        while left or running:
            if left:
                running.add(asyncio.create_task(left.pop()()))
            answered: set[asyncio.Task[T]] = set()
            while running and not answered:
                answered, running = await asyncio.wait(
                    running, timeout=patience if left else None, return_when=asyncio.FIRST_COMPLETED
                )
                if not answered:
                    patience *= BACKOFF
                    break
            good = [question for question in answered if question.exception() is None]
            if good:
                return good[0].result()
            for question in answered:
                error = question.exception()
                if not isinstance(error, LedgerError):
                    question.result()
                else:
                    failures.append(error)
    finally:
        for question in running:
            question.cancel()
    assert failures, "nobody was asked"
    raise most_telling_failure(failures)


async def _one_by_one(questions: Sequence[Question[T]]) -> T:
    """Returns the first good answer, and asks each question only after the one before has failed. This is `first_good`
    with a patience of 0, without a task for each question."""
    failures: list[LedgerError] = []
    for question in questions:
        try:
            return await question()
        except LedgerError as error:
            failures.append(error)
    assert failures, "nobody was asked"
    raise most_telling_failure(failures)
