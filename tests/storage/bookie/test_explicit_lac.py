"""Explicit LACs and lists of entries are durable when they are answered, never go back, and are deleted with their
ledger."""

import asyncio
import errno
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.index_runs import ranges_of, union_of
from magnetar.storage.bookie.lac_table import LacTable
from magnetar.storage.bookie.ledger_state import EXPLICIT_LAC_BYTES_MAX, BookieLedgerState
from pulsar_proto.records.entry_digest import DigestType, EntryCodec
from pulsar_proto.wire.bookie_wire import AddFlags, BookieError, BookieRc, ReadFlags
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import KEY, Ledgers, add, open_bookie, running

CODEC = EntryCodec(5, DigestType.CRC32C, b"")


def packet(lac: int) -> bytes:
    return CODEC.pack_lac(lac)


async def rc_of_write(bookie: Bookie, lac: int, key: bytes = KEY, ledger_id: int = 5) -> BookieRc:
    try:
        await bookie.write_explicit_lac(ledger_id, key, packet(lac))
    except BookieError as error:
        return error.rc
    return BookieRc.EOK


@pytest.mark.parametrize("flushed", [False, True])
async def test_an_answered_explicit_lac_survives_a_kill(tmp_path: Path, flushed: bool) -> None:
    async with running(tmp_path / "live") as bookie:
        assert bookie.explicit_lac(5) is None
        assert await rc_of_write(bookie, 7) == BookieRc.EOK
        if flushed:
            await bookie.checkpoint()
        assert bookie.explicit_lac(5) == packet(7)
        shutil.copytree(tmp_path / "live", tmp_path / "killed")
    async with running(tmp_path / "killed") as again:
        assert again.explicit_lac(5) == packet(7)
        assert await rc_of_write(again, 9, b"other key") == BookieRc.EUA
        assert await rc_of_write(again, 9) == BookieRc.EOK


async def test_an_explicit_lac_never_goes_back(tmp_path: Path) -> None:
    async with running(tmp_path / "live") as bookie:
        await asyncio.gather(*(rc_of_write(bookie, lac) for lac in (3, 8, 2, 8, 5)))
        assert await rc_of_write(bookie, 1) == BookieRc.EOK
        assert bookie.explicit_lac(5) == packet(8)
        shutil.copytree(tmp_path / "live", tmp_path / "killed")
    for folder in ("live", "killed"):
        async with running(tmp_path / folder) as again:
            assert again.explicit_lac(5) == packet(8)


async def test_a_lac_that_could_not_be_made_durable_is_not_told(tmp_path: Path) -> None:
    faults = Faults()
    bookie = await open_bookie(tmp_path, open_file=faults.open)
    faults.sync_error = errno.EIO
    assert await rc_of_write(bookie, 7) == BookieRc.EIO
    assert bookie.explicit_lac(5) is None
    faults.sync_error = None
    await bookie.close()


async def test_a_fence_is_no_obstacle_and_read_only_is_one(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 5, range(1))
        await bookie.read_entry(5, 0, ReadFlags.FENCING, KEY)
        assert await rc_of_write(bookie, 0) == BookieRc.EOK
        with pytest.raises(BookieError) as refused:
            await bookie.write_explicit_lac(5, KEY, bytes(EXPLICIT_LAC_BYTES_MAX + 1))
        assert refused.value.rc == BookieRc.EBADREQ
    async with running(tmp_path, force_read_only_bookie=True) as bookie:
        assert not bookie.is_writable
        assert await rc_of_write(bookie, 9) == BookieRc.EREADONLY
        assert await add(bookie, 5, range(1, 2), flags=AddFlags.RECOVERY_ADD) == BookieRc.EREADONLY


async def test_a_deleted_ledgers_lac_is_gone_and_its_late_writer_is_refused(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers) as bookie:
        deleted: list[set[int]] = []
        bookie.on_ledgers_deleted(deleted.append)
        await add(bookie, 5, range(1))
        assert await rc_of_write(bookie, 0) == BookieRc.EOK
        await bookie.read_entry(5, 0, ReadFlags.FENCING, KEY)
        ledgers.ids.discard(5)
        await bookie.collect_garbage()
        assert (bookie.explicit_lac(5), deleted) == (None, [{5}])
        assert await rc_of_write(bookie, 1) == BookieRc.EFENCED
        assert await add(bookie, 5, range(1, 2)) == BookieRc.EFENCED


async def test_a_copy_that_comes_back_to_a_ledger_given_up_is_taken_and_stays_fenced(tmp_path: Path) -> None:
    """The ledger was over-replicated and dropped here, and auto-recovery has chosen this bookie for it again. Apache's
    bookie refuses that copy."""
    ledgers = Ledgers()
    async with running(tmp_path / "live", ledgers) as bookie:
        await add(bookie, 5, range(2))
        await bookie.read_entry(5, 0, ReadFlags.FENCING, KEY)
        ledgers.ids.discard(5)
        await bookie.collect_garbage()
        ledgers.ids.add(5)
        assert await add(bookie, 5, range(1), flags=AddFlags.RECOVERY_ADD) == BookieRc.EOK
        assert await add(bookie, 5, range(1, 2)) == BookieRc.EFENCED
        shutil.copytree(tmp_path / "live", tmp_path / "killed")
    async with running(tmp_path / "killed") as again:
        assert await add(again, 5, range(1, 2)) == BookieRc.EFENCED


async def test_entries_are_listed_wherever_they_stand(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        striped = [*range(0, 30, 3), *range(1, 30, 3)]
        await add(bookie, 5, striped)
        await bookie.checkpoint()
        await add(bookie, 5, [100, 5, 3])
        await bookie.checkpoint()
        await add(bookie, 5, [4, 8])
        expected = sorted({*striped, 100, 5, 3, 4, 8})
        runs = await bookie.entry_id_runs(5)
        assert [i for run in runs for i in run] == expected
        assert runs == ranges_of(expected)
        with pytest.raises(BookieError) as unknown:
            await bookie.entry_id_runs(6)
        assert unknown.value.rc == BookieRc.ENOLEDGER


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 20))))
def test_a_union_holds_each_id_once(parts: list[tuple[int, int]]) -> None:
    ranges = [range(start, start + length) for start, length in parts]
    ids = sorted({i for each in ranges for i in each})
    assert union_of(ranges) == ranges_of(ids)


@pytest.mark.parametrize("lac", [None, 0, 1 << 62])
def test_a_state_keeps_its_explicit_lac(lac: int | None) -> None:
    state = BookieLedgerState(5, KEY, fenced=True)
    if lac is not None:
        assert state.raise_explicit_lac(packet(lac))
    again = BookieLedgerState.decode(5, state.encode())
    assert (again.master_key, again.fenced, again.explicit_lac) == (KEY, True, None if lac is None else packet(lac))
    with pytest.raises(ValueError):
        BookieLedgerState.decode(5, state.encode()[:3])


def test_whoever_waits_for_a_ledgers_lac_hears_of_its_end() -> None:
    lacs = LacTable()
    woken: list[int] = []
    for ledger_id in (1, 2, 3):
        lacs.raise_to(ledger_id, 4)
        assert lacs.watch(ledger_id, 4, lambda watch: woken.append(watch.ledger_id)) is not None
    lacs.deleted(1)
    assert (woken, lacs.known(1), lacs.known(2)) == ([1], None, 4)
    lacs.close()
    assert (woken, lacs.watching) == ([1, 2, 3], 0)
