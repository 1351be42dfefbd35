"""The contract of `bookie_channel`, kept by the fake bookie and by the real one in its process.

The stories in this folder are told on the fake, so whatever the fake promises must be what a bookie does.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.bookie_channel import BookieChannel
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.wire.bookie_wire import AddFlags, BookieError, BookieRc, ReadFlags
from tests.storage.ledger.fake_bookie import FakeCluster

KEY = master_key(b"")
FENCE = int(ReadFlags.FENCING)
RECOVERY_ADD = int(AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY)
CODEC = EntryCodec(7, DigestType.CRC32C)
ENTRIES = CODEC.pack_run(0, -1, 0, [b"entry %d" % i for i in range(20)])


@pytest.fixture(params=["fake", "real"])
async def channel(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BookieChannel]:
    if request.param == "fake":
        yield FakeCluster(1).link("client", "b0")
        return

    async def known() -> set[int]:
        return {7}

    config = BookieConfig(
        journal_directories=(str(tmp_path / "journal"),), ledger_directories=(str(tmp_path / "ledgers"),)
    )
    bookie = await Bookie.open(config, bookie_id="b0", list_ledgers=known)
    try:
        yield bookie
    finally:
        await bookie.close()


async def add(channel: BookieChannel, first: int, entries: Sequence[bytes], flags: int = 0, key: bytes = KEY) -> int:
    """Adds the entries and waits until each is answered once. Returns the return code, which must be the same for
    all."""
    ids = range(first, first + len(entries))
    codes: dict[int, int] = {}
    all_answered = asyncio.get_running_loop().create_future()
    inside = True

    def done(some: Sequence[int], rc: int) -> None:
        assert not inside, "done was called from inside add_entries"
        for entry_id in some:
            assert entry_id not in codes, "an entry was answered twice"
            codes[entry_id] = rc
        if len(codes) == len(ids):
            all_answered.set_result(None)

    channel.add_entries(7, key, ids, entries, flags, done)
    inside = False
    await all_answered
    assert list(codes) == list(ids)
    (rc,) = set(codes.values())
    return rc


async def rc_of_read(channel: BookieChannel, entry_id: int, flags: int = 0, key: bytes = b"") -> BookieRc:
    with pytest.raises(BookieError) as caught:
        await channel.read_entry(7, entry_id, flags, key)
    return BookieRc(caught.value.rc)


async def test_what_was_added_is_read_singly_and_in_runs(channel: BookieChannel) -> None:
    assert await add(channel, 0, ENTRIES) == BookieRc.EOK
    assert await channel.read_entry(7, 3) == ENTRIES[3]
    assert await channel.read_entry(7, -1) == ENTRIES[-1]
    assert await channel.read_entries(7, 5, 4, 10**6) == ENTRIES[5:9]
    assert await channel.read_entries(7, 15, 100, 10**6) == ENTRIES[15:]


async def test_a_run_ends_at_its_limit_in_bytes_but_has_an_entry(channel: BookieChannel) -> None:
    assert await add(channel, 0, ENTRIES) == BookieRc.EOK
    assert await channel.read_entries(7, 0, 20, 1) == ENTRIES[:1]
    some = await channel.read_entries(7, 0, 20, 5 * len(ENTRIES[0]))
    assert 1 <= len(some) <= 5
    assert some == ENTRIES[: len(some)]


async def test_a_run_ends_before_a_gap(channel: BookieChannel) -> None:
    assert await add(channel, 0, ENTRIES[:2]) == BookieRc.EOK
    assert await add(channel, 5, ENTRIES[5:7]) == BookieRc.EOK
    assert await channel.read_entries(7, 0, 20, 10**6) == ENTRIES[:2]
    with pytest.raises(BookieError) as caught:
        await channel.read_entries(7, 2, 20, 10**6)
    assert caught.value.rc == BookieRc.ENOENTRY


async def test_an_unknown_ledger_and_a_missing_entry_are_told_apart(channel: BookieChannel) -> None:
    assert await rc_of_read(channel, 0) == BookieRc.ENOLEDGER
    assert await rc_of_read(channel, -1) == BookieRc.ENOLEDGER
    assert await add(channel, 0, ENTRIES[:1]) == BookieRc.EOK
    assert await rc_of_read(channel, 1) == BookieRc.ENOENTRY


async def test_another_key_neither_adds_nor_fences(channel: BookieChannel) -> None:
    other = master_key(b"other")
    assert await add(channel, 0, ENTRIES[:1]) == BookieRc.EOK
    assert await add(channel, 1, ENTRIES[1:2], key=other) == BookieRc.EUA
    assert await rc_of_read(channel, -1, FENCE, other) == BookieRc.EUA
    assert await add(channel, 1, ENTRIES[1:2]) == BookieRc.EOK


async def test_a_fenced_ledger_takes_recovery_adds_only(channel: BookieChannel) -> None:
    assert await add(channel, 0, ENTRIES[:2]) == BookieRc.EOK
    assert await channel.read_entry(7, -1, FENCE, KEY) == ENTRIES[1]
    assert await add(channel, 2, ENTRIES[2:4]) == BookieRc.EFENCED
    assert await rc_of_read(channel, 2) == BookieRc.ENOENTRY
    assert await add(channel, 2, ENTRIES[2:4], RECOVERY_ADD) == BookieRc.EOK
    assert await channel.read_entry(7, 3) == ENTRIES[3]


async def test_a_ledger_is_fenced_before_the_bookie_ever_saw_it(channel: BookieChannel) -> None:
    assert await rc_of_read(channel, -1, FENCE, KEY) == BookieRc.ENOENTRY
    assert await add(channel, 0, ENTRIES[:1]) == BookieRc.EFENCED


async def test_a_fencing_read_of_a_missing_entry_fences(channel: BookieChannel) -> None:
    assert await add(channel, 0, ENTRIES[:1]) == BookieRc.EOK
    assert await rc_of_read(channel, 1, int(ReadFlags.FENCING | ReadFlags.HIGH_PRIORITY), KEY) == BookieRc.ENOENTRY
    assert await add(channel, 1, ENTRIES[1:2]) == BookieRc.EFENCED


async def test_an_entry_may_be_added_again(channel: BookieChannel) -> None:
    assert await add(channel, 0, ENTRIES[:2]) == BookieRc.EOK
    assert await add(channel, 0, ENTRIES[:1], RECOVERY_ADD) == BookieRc.EOK
    assert await channel.read_entries(7, 0, 9, 10**6) == ENTRIES[:2]
    assert await channel.read_entry(7, -1) == ENTRIES[1]
