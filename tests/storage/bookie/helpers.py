"""What the bookie's tests share: entries as a client makes them, and a bookie on a temporary folder."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.cookie import BookieDirectories

KEY = b"k" * 20
_HEADER = struct.Struct(">qqqqI")


def entry_of(ledger_id: int, entry_id: int, payload: bytes = b"") -> bytes:
    """Makes an entry: a header, a digest that no bookie checks, and a payload that no other entry has."""
    return _HEADER.pack(ledger_id, entry_id, entry_id - 1, 0, 0) + (payload or b"payload of %d" % entry_id)


def entries_of(ledger_id: int, entry_ids: Sequence[int], size: int = 0) -> list[bytes]:
    return [entry_of(ledger_id, i, bytes([i % 251]) * size) for i in entry_ids]


def config_in(folder: Path, **values: Any) -> BookieConfig:
    defaults: dict[str, Any] = {
        "journal_directories": (str(folder / "journal"),),
        "ledger_directories": (str(folder / "ledgers"),),
        "disk_usage_threshold": 0.999,
        "disk_usage_lwm_threshold": 0.999,
    }
    return BookieConfig(**defaults | values)


class Ledgers:
    """The list of ledgers that the metadata would give."""

    def __init__(self) -> None:
        self.ids: set[int] = set(range(1000))

    async def __call__(self) -> set[int]:
        return set(self.ids)


async def open_bookie(folder: Path, ledgers: Ledgers | None = None, **values: Any) -> Bookie:
    open_file = values.pop("open_file", None)
    extra = {"open_file": open_file} if open_file is not None else {}
    return await Bookie.open(
        config_in(folder, **values), bookie_id="bookie-1", list_ledgers=ledgers or Ledgers(), instance_id="i", **extra
    )


@asynccontextmanager
async def running(folder: Path, ledgers: Ledgers | None = None, **values: Any) -> AsyncIterator[Bookie]:
    bookie = await open_bookie(folder, ledgers, **values)
    try:
        yield bookie
    finally:
        await bookie.close()


def start_add(
    bookie: Bookie, ledger_id: int, entry_ids: Sequence[int], entries: Sequence[bytes], flags: int = 0, key: bytes = KEY
) -> "asyncio.Future[int]":
    """Starts an add, and returns a future of its return code."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    bookie.add_entries(ledger_id, key, entry_ids, entries, flags, lambda ids, rc: future.set_result(rc))
    return future


async def add(
    bookie: Bookie, ledger_id: int, entry_ids: Sequence[int], *, size: int = 0, flags: int = 0, key: bytes = KEY
) -> int:
    return await start_add(bookie, ledger_id, entry_ids, entries_of(ledger_id, entry_ids, size), flags, key)


async def writable(bookie: Bookie) -> None:
    """Returns once the bookie accepts writes."""
    changed = asyncio.Event()
    end = bookie.on_mode_change(lambda _: changed.set())
    async with asyncio.timeout(60):
        while not bookie.is_writable:
            await changed.wait()
            changed.clear()
    end()


async def read_all(bookie: Bookie, ledger_id: int, first: int, last: int) -> list[bytes]:
    found: list[bytes] = []
    while first + len(found) <= last:
        found += await bookie.read_entries(ledger_id, first + len(found), last - first + 1 - len(found), 1 << 20)
    return found


def files_of(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.rglob("*" + suffix) if "index" not in path.parts)


def flip_byte(path: Path, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x5A]))
        os.fsync(file.fileno())


def folders(folder: Path, bookie_id: str = "b1", instance_id: str = "i1", **values: Any) -> BookieDirectories:
    return BookieDirectories(config_in(folder, **values), bookie_id, instance_id)
