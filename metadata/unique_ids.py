"""Draws ledger ids and broker instances from sequential records. No number is ever given out twice.

Ledger ids are drawn as BookKeeper does (ZkLedgerIdGenerator, LongZkLedgerIdGenerator), so that Magnetar's and Java's
programs can share one store. An id is the number of an ephemeral sequential record below `/ledgers/idgen`. Once the 31
bits of these numbers are used up, the high bits come from `/ledgers/idgen-long/HOB-…` and the low bits from a record
below the HOB record. No id is given out twice; ids that were drawn and not used are skipped.
"""

import asyncio
import contextlib
from collections import deque

from magnetar.metadata.errors import NodeExistsError, NoNodeError, NotEmptyError
from magnetar.metadata.paths import LEDGERS_ROOT, PRODUCER_NAME_COUNTER
from magnetar.metadata.store import DeleteOp, MetadataStore
from magnetar.metadata.tree_rules import Tree

BLOCK_IDS = 8
"""How many ids are drawn at once. With the embedded store they share one commit. After a restart, the unused ids are
skipped."""

DRAWN_AT_ONCE_MAX = 64
"""The largest number of ids that are drawn at once when many callers wait. Drawing ids one after the other would cost
two commits of the metadata store for each id, and a thousand topics that moved to another broker would mostly wait for
the ids of their ledgers."""

SHORT_ID_END = 2**31 - 1
"""Ids from here on come from idgen-long (Java compares with Integer.MAX_VALUE)."""

LOW_BITS = 32
HOBS_KEPT = 3
"""How many records of high bits are kept; older ones are deleted."""


def ledger_ids_end(tree: Tree, root: str = LEDGERS_ROOT) -> int:
    """Returns an id that is greater than every ledger id that was ever given out."""
    long_root = tree.find(f"{root}/idgen-long")
    if long_root is None:
        short_root = tree.find(f"{root}/idgen")
        return 0 if short_root is None else min(short_root.sequence, SHORT_ID_END)
    highs = sorted((_high_of(name), node.sequence) for name, node in (long_root.children or {}).items())
    return highs[-1][0] << LOW_BITS | highs[-1][1] if highs else SHORT_ID_END


async def skip_ledger_ids(store: MetadataStore, held: int, *, root: str = LEDGERS_ROOT) -> int:
    """Makes the next ledger ids begin with high bits that nobody has used. Returns the next id.

    The next id is above all ids that were given out, and above `held`, an id that is in use although these records may
    not show this. Must be called before a generator draws ids. Raises MetadataError when the store fails.
    """
    long_root = f"{root}/idgen-long"
    highs = [held >> LOW_BITS]
    if await store.exists(long_root) is not None:
        highs += map(_high_of, await store.children(long_root))
    high = max(highs) + 1
    await store.create(_hob_path(long_root, high), make_parents=True)
    return high << LOW_BITS


def _high_of(name: str) -> int:
    return int(name.removeprefix("HOB-"))


def _hob_path(long_root: str, high: int) -> str:
    return f"{long_root}/HOB-{high:010d}"


class LedgerIdGenerator:
    """Draws ledger ids for one process: a block at a time, or as many as callers wait for."""

    def __init__(self, store: MetadataStore, *, root: str = LEDGERS_ROOT, block_ids: int = BLOCK_IDS) -> None:
        self._store = store
        self._short_root = f"{root}/idgen"
        self._long_root = f"{root}/idgen-long"
        self._block_ids = block_ids
        self._drawn: deque[int] = deque()
        self._drawing = asyncio.Lock()
        self._callers = 0
        """How many callers have no id yet."""

    async def next_id(self) -> int:
        """Returns an id that nobody else gets. Raises MetadataError when the store fails."""
        self._callers += 1
        try:
            while not self._drawn:
                async with self._drawing:
                    if not self._drawn:
                        self._drawn.extend(await self._draw())
            return self._drawn.popleft()
        finally:
            self._callers -= 1

    async def _draw(self) -> list[int]:
        count = max(self._block_ids, min(self._callers, DRAWN_AT_ONCE_MAX))
        if await self._store.exists(self._long_root) is None:
            ids = [number for number in await self._numbers(self._short_root, count) if number < SHORT_ID_END]
            if ids:
                return ids
            with contextlib.suppress(NodeExistsError):
                await self._store.create(self._long_root, make_parents=True)
        return await self._draw_long(count)

    async def _draw_long(self, count: int) -> list[int]:
        highs = sorted(map(_high_of, await self._store.children(self._long_root)))
        high = highs[-1] if highs else 0
        ids: list[int] = []
        while not ids:
            if high > 0:
                numbers = await self._numbers(_hob_path(self._long_root, high), count)
                ids = [high << LOW_BITS | number for number in numbers if number < SHORT_ID_END]
            if not ids:
                high += 1
                highs.append(high)
                with contextlib.suppress(NodeExistsError):
                    await self._store.create(_hob_path(self._long_root, high))
        for old in highs[:-HOBS_KEPT]:
            with contextlib.suppress(NoNodeError, NotEmptyError):
                await self._store.delete(_hob_path(self._long_root, old))
        return ids

    async def _numbers(self, parent: str, count: int) -> list[int]:
        prefix = f"{parent}/ID-"
        drawing = [self._store.create(prefix, ephemeral=True, sequential=True, make_parents=True) for _ in range(count)]
        done = await asyncio.gather(*drawing, return_exceptions=True)
        drawn = [created.path for created in done if not isinstance(created, BaseException)]
        await self._delete(drawn)
        for created in done:
            if isinstance(created, BaseException):
                raise created
        return sorted(int(path.removeprefix(prefix)) for path in drawn)

    async def _delete(self, paths: list[str]) -> None:
        """Deletes the records of drawn ids, in one change if possible: with many new ledgers at once, a request for
        each record would be a good part of the metadata store's work."""
        try:
            await self._store.multi([DeleteOp(path) for path in paths])
        except NoNodeError:
            # The session that these records belonged to has ended, and some or all of them with it.
            for path in paths:
                with contextlib.suppress(NoNodeError):
                    await self._store.delete(path)


async def broker_instance(store: MetadataStore) -> int:
    """Draws the number of this run of the broker, which generated producer names have in the middle: the 0 in
    `standalone-0-2`.

    The record with this number ends with the session (DistributedIdGenerator). Raises MetadataError when the store
    fails.
    """
    prefix = f"{PRODUCER_NAME_COUNTER}/-"
    created = await store.create(prefix, ephemeral=True, sequential=True, make_parents=True)
    return int(created.path.removeprefix(prefix))
