"""The adds of one turn of the event loop go to the journal as one group."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from magnetar.storage.bookie.journal_feed import AwaitedAdd, JournalFeed
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.bookie.helpers import entries_of, open_bookie, read_all, running, start_add
from tests.storage.bookie.journal_scene import Opened, journal_in

CONTROL = b"a control record"


def give(feed: JournalFeed, ledger_id: int, count: int, controls: Sequence[bytes] = ()) -> AwaitedAdd:
    """Gives the feed entries of 20 bytes and of their ids."""
    entries = entries_of(ledger_id, range(count), 20)
    lengths = list(map(len, entries))
    awaited: AwaitedAdd = (range(count), lambda ids, rc: None, None)
    feed.add(entries, lengths, sum(lengths), controls, awaited)
    return awaited


def feed_of(opened: Opened, bytes_max: int = 1 << 20) -> JournalFeed:
    return JournalFeed(opened.journal, bytes_max)


async def test_the_adds_of_one_turn_are_one_group_in_their_order(tmp_path: Path) -> None:
    with journal_in(tmp_path) as opened:
        feed = feed_of(opened)
        awaited = [give(feed, 1, 2), give(feed, 2, 1, (CONTROL,)), give(feed, 3, 3)]
        assert opened.journal.queued_groups == 0
        (group,) = (await asyncio.to_thread(opened.next)).groups
        entries, lengths, size, controls, adds = group
        assert entries == [*entries_of(1, range(2), 20), *entries_of(2, range(1), 20), *entries_of(3, range(3), 20)]
        assert lengths == list(map(len, entries))
        assert size == sum(lengths)
        assert list(controls) == [CONTROL]
        assert adds == awaited


async def test_the_adds_of_two_turns_are_two_groups(tmp_path: Path) -> None:
    with journal_in(tmp_path) as opened:
        feed = feed_of(opened)
        for _ in range(2):
            awaited = give(feed, 1, 1)
            (group,) = (await asyncio.to_thread(opened.next)).groups
            assert group[4] == [awaited]


async def test_adds_of_a_batchs_size_do_not_wait_for_the_end_of_the_turn(tmp_path: Path) -> None:
    with journal_in(tmp_path) as opened:
        feed = feed_of(opened, bytes_max=1)
        awaited = give(feed, 1, 1)
        (group,) = opened.next().groups  # blocks the loop, whose turn therefore goes on
        assert group[4] == [awaited]


async def test_a_bookie_that_is_closed_in_the_turn_of_an_add_makes_the_add_durable(tmp_path: Path) -> None:
    bookie = await open_bookie(tmp_path)
    outcome = start_add(bookie, 1, range(3), entries_of(1, range(3)))
    await bookie.close()
    assert await outcome == BookieRc.EOK
    async with running(tmp_path) as again:
        assert await read_all(again, 1, 0, 2) == entries_of(1, range(3))
