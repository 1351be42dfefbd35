"""A bookie that is away fails at every ledger that it holds, and is worth one warning."""

import asyncio
import logging

import pytest

from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, answered, members, new_ledger
from tests.storage.ledger.virtual_loop import run

LEDGERS = 20


def warnings(caplog: pytest.LogCaptureFixture, bookie: str) -> list[str]:
    """Returns the warnings about the bookie, but for the one that says that it gets no new ledgers."""
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [line for line in lines if bookie in line and "failed often" not in line]


def test_writers_of_many_ledgers_warn_once_of_a_bookie_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> str:
        scene = Scene(4)
        client = scene.client("w")
        ledgers = [await new_ledger(client, (3, 3, 2)) for _ in range(LEDGERS)]
        killed = members(ledgers[0][0])[0]
        scene.cluster.bookies[killed].network = LinkState.RESET
        for _, writer in ledgers:
            writer.append(b"x")
            await answered(writer)
        return killed

    killed = run(story())
    assert len(warnings(caplog, killed)) == 1
    replaced = [record for record in caplog.records if "replacing bookies that failed" in record.getMessage()]
    assert len(replaced) > 1
    assert [record.levelno for record in replaced[1:]] == [logging.INFO] * (len(replaced) - 1)


def test_readers_of_many_ledgers_warn_once_of_a_bookie_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> str:
        scene = Scene(3)
        ids = []
        for _ in range(LEDGERS):
            handle, _ = await new_ledger(scene.client("w"), (3, 3, 3))
            await handle.add(b"x")
            await handle.close()
            ids.append(handle.ledger_id)
        reader, killed = scene.client("r"), members(handle)[0]
        scene.cluster.bookies[killed].network = LinkState.RESET
        opened = [await reader.open_ledger(ledger_id) for ledger_id in ids]
        read = await asyncio.gather(*(ledger.read(0, 0) for ledger in opened))
        assert [len(entries) for entries in read] == [1] * LEDGERS
        return killed

    killed = run(story())
    assert len(warnings(caplog, killed)) == 1
