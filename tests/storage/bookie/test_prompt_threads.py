"""The switch interval is short while entries are read from the logs and added, and the usual one at all other times."""

import asyncio
import sys
from collections.abc import Iterator

import pytest

from magnetar.storage.bookie.prompt_threads import PROMPT_SWITCH_SECONDS, READING_SECONDS, PromptThreads
from tests.storage.ledger import virtual_loop

USUAL_SECONDS = 0.003


@pytest.fixture(autouse=True)
def usual_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL_SECONDS)
    yield
    sys.setswitchinterval(before)


def is_prompt() -> bool:
    microseconds = round(sys.getswitchinterval() * 1e6)
    assert microseconds in (round(PROMPT_SWITCH_SECONDS * 1e6), round(USUAL_SECONDS * 1e6))
    return microseconds == round(PROMPT_SWITCH_SECONDS * 1e6)


def test_the_interval_is_short_until_reads_have_ended_for_a_while() -> None:
    async def reads() -> None:
        threads = PromptThreads()
        batches = 0
        for _ in range(2):
            for _ in range(30):
                batches += 1
                threads.reading(batches)
                assert is_prompt()
                await asyncio.sleep(READING_SECONDS * 0.9)
                assert is_prompt()
            await asyncio.sleep(READING_SECONDS * 0.2)
            assert not is_prompt()

    virtual_loop.run(reads())


def test_reads_alone_leave_the_usual_interval() -> None:
    async def reads() -> None:
        threads = PromptThreads()
        threads.reading(7)
        for _ in range(30):
            await asyncio.sleep(READING_SECONDS * 0.9)
            threads.reading(7)
        assert not is_prompt()

    virtual_loop.run(reads())


def test_a_bookie_that_is_closed_while_entries_are_read_leaves_the_usual_interval() -> None:
    async def reads() -> None:
        threads = PromptThreads()
        threads.reading(1)
        threads.close()
        assert not is_prompt()
        threads.close()
        await asyncio.sleep(2 * READING_SECONDS)
        assert not is_prompt()

    virtual_loop.run(reads())


def test_two_bookies_of_a_process_leave_the_usual_interval_whichever_is_read_longer() -> None:
    async def reads() -> None:
        first, second = PromptThreads(), PromptThreads()
        for round_ in range(100):
            first.reading(3 * round_ + 1)
            second.reading(3 * round_ + 1)
            await asyncio.sleep(READING_SECONDS * 0.6)
            second.reading(3 * round_ + 2)
            assert is_prompt()
            await asyncio.sleep(READING_SECONDS * 0.6)
            second.reading(3 * round_ + 3)
            assert is_prompt()
            await asyncio.sleep(READING_SECONDS * 2)
            assert not is_prompt()

    virtual_loop.run(reads())
