"""Asks one source after the other, and the next one early when those asked say nothing: a speculative read.

Source: DefaultSpeculativeRequestExecutionPolicy of BookKeeper's client (facts 5 "Reads").
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.read_rules import verdict

T = TypeVar("T")

Question = Callable[[], Coroutine[Any, Any, T]]

BACKOFF = 2


async def first_good(questions: Sequence[Question[T]], patience: float) -> T:
    """The first answer. A question that fails is followed by the next at once; one that is silent for `patience`
    seconds (twice as long for each further one; 0: for ever) is joined by the next. Those left over are cancelled.

    Raises the LedgerError that says most when all failed; at least one question.
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
    raise verdict(failures)


async def _one_by_one(questions: Sequence[Question[T]]) -> T:
    failures: list[LedgerError] = []
    for question in questions:
        try:
            return await question()
        except LedgerError as error:
            failures.append(error)
    assert failures, "nobody was asked"
    raise verdict(failures)
