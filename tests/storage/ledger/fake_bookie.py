"""Bookies in memory that keep the channel's contract, and the network between them and each client.

Nothing sleeps: delays are timers of the loop, random ones come from the cluster's generator. On a `VirtualLoop` a run
is the same every time. A request and its answer each take a delay; requests of one link arrive in order, answers in
any.

Bookie (`FakeBookie`): what it stores is durable. `rc_of_add` / `rc_of_read` make it refuse; `damage` changes bytes;
`network` is its state towards all clients. Link (one client's channel to one bookie): `RESET` breaks the connection (-8
to everything under way and to come), `SILENT` loses requests, `DEAF` loses answers; `hold()` keeps requests until
`release()`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random

from magnetar.storage.ledger.bookie_channel import AddDone
from magnetar.storage.ledger.ledger_errors import BookieHandleNotAvailable
from pulsar_proto.records.entry_digest import entry_ids
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, AddFlags, BookieError, BookieRc, ReadFlags

EOK = int(BookieRc.EOK)


class LinkState(Enum):
    OK = "ok"
    RESET = "reset"
    SILENT = "silent"
    DEAF = "deaf"


class FakeLedger:
    def __init__(self, master_key: bytes) -> None:
        self.master_key = master_key
        self.fenced = False
        self.entries: dict[int, bytes] = {}


class FakeBookie:
    """The storage of one bookie, as BookKeeper's Bookie and its request processors behave. It answers at once; delays
    are the link's."""

    def __init__(self, bookie_id: str) -> None:
        self.bookie_id = bookie_id
        self.network = LinkState.OK
        self.ledgers: dict[int, FakeLedger] = {}
        self.rc_of_add = BookieRc.EOK
        self.rc_of_read = BookieRc.EOK

    def add(self, ledger_id: int, master_key: bytes, entry: bytes, flags: int) -> int:
        if self.rc_of_add:
            return int(self.rc_of_add)
        ledger = self.ledgers.setdefault(ledger_id, FakeLedger(master_key))
        if ledger.master_key != master_key:
            return int(BookieRc.EUA)
        if ledger.fenced and not flags & AddFlags.RECOVERY_ADD:
            return int(BookieRc.EFENCED)
        assert entry_ids(entry)[0] == ledger_id
        ledger.entries[entry_ids(entry)[1]] = entry
        return EOK

    def read(self, ledger_id: int, entry_id: int, flags: int, master_key: bytes) -> bytes:
        if self.rc_of_read:
            raise BookieError(self.rc_of_read)
        if flags & ReadFlags.FENCING:
            ledger = self.ledgers.setdefault(ledger_id, FakeLedger(master_key))
            if ledger.master_key != master_key:
                raise BookieError(BookieRc.EUA)
            ledger.fenced = True
        if ledger_id not in self.ledgers:
            raise BookieError(BookieRc.ENOLEDGER)
        entries = self.ledgers[ledger_id].entries
        if entry_id == LAST_ENTRY:
            entry_id = max(entries, default=LAST_ENTRY)
        if entry_id not in entries:
            raise BookieError(BookieRc.ENOENTRY)
        return entries[entry_id]

    def read_run(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        run = [self.read(ledger_id, first, 0, b"")]
        size = len(run[0])
        while len(run) < max_entries:
            try:
                entry = self.read(ledger_id, first + len(run), 0, b"")
            except BookieError:
                break
            size += len(entry)
            if size > max_bytes:
                break
            run.append(entry)
        return run

    def damage(self, ledger_id: int, entry_id: int) -> None:
        """Changes the last byte of a stored entry."""
        entries = self.ledgers[ledger_id].entries
        entries[entry_id] = entries[entry_id][:-1] + bytes([entries[entry_id][-1] ^ 1])


class Link:
    """One client's channel to one bookie."""

    def __init__(self, bookie: FakeBookie, cluster: "FakeCluster") -> None:
        self.bookie = bookie
        self.state = LinkState.OK
        self.adds_asked = 0
        """The entries that add_entries was called with."""
        self.reads_asked: list[tuple[int, int]] = []
        """For each read_entry (entry id, flags), for each read_entries (first entry id, -entries)."""
        self._cluster = cluster
        self._last_arrival = 0.0
        self._held: deque[Callable[[], None]] | None = None

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        assert len(entry_ids) == len(entries) > 0
        self.adds_asked += len(entries)
        ids = list(entry_ids)

        def arrive() -> None:
            codes = [self.bookie.add(ledger_id, master_key, entry, flags) for entry in entries]
            for some, rc in self._cluster.split_answer(entry_ids, codes):
                self._answer(partial(done, some, rc), partial(lost, some))

        def lost(some: Sequence[int]) -> None:
            done(some, BookieHandleNotAvailable.code)

        self._request(arrive, partial(lost, ids))

    @property
    def held(self) -> int:
        """Requests that have arrived and are held back."""
        return len(self._held or ())

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        self.reads_asked.append((entry_id, flags))
        return (await self._read(lambda: [self.bookie.read(ledger_id, entry_id, flags, master_key)]))[0]

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        self.reads_asked.append((first_entry_id, -max_entries))
        return await self._read(lambda: self.bookie.read_run(ledger_id, first_entry_id, max_entries, max_bytes))

    def hold(self) -> None:
        """Holds back the requests that arrive from now on, until `release`."""
        self._held = deque()

    def release(self, count: int | None = None) -> None:
        """Lets the oldest `count` held requests through. Letting all through also ends the holding."""
        assert self._held is not None, "nothing is held"
        held, self._held = self._held, self._held if count is not None else None
        for _ in range(len(held) if count is None else count):
            held.popleft()()

    def lose(self, count: int) -> None:
        """Drops the oldest `count` held requests, of which nobody hears any more."""
        assert self._held is not None, "nothing is held"
        for _ in range(count):
            self._held.popleft()

    def _state(self) -> LinkState:
        return self.state if self.bookie.network is LinkState.OK else self.bookie.network

    async def _read(self, answer: Callable[[], list[bytes]]) -> list[bytes]:
        outcome: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()

        def tell(entries: list[bytes] | None, error: Exception | None) -> None:
            if not outcome.done():
                if error is not None:
                    outcome.set_exception(error)
                else:
                    outcome.set_result(entries or [])

        def lost() -> None:
            tell(None, ConnectionResetError("connection lost"))

        def arrive() -> None:
            try:
                entries = answer()
            except BookieError as error:
                failure = error
                self._answer(lambda: tell(None, failure), lost)
            else:
                self._answer(lambda: tell(entries, None), lost)

        self._request(arrive, lost)
        return await outcome

    def _request(self, arrive: Callable[[], None], lost: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._last_arrival = max(self._last_arrival, loop.time() + self._cluster.delay())

        def reach() -> None:
            state = self._state()
            if state is LinkState.SILENT:
                return
            if state is LinkState.RESET:
                lost()
            elif self._held is not None:
                self._held.append(arrive)
            else:
                arrive()

        loop.call_at(self._last_arrival, reach)

    def _answer(self, tell: Callable[[], None], lost: Callable[[], None]) -> None:
        def reach() -> None:
            state = self._state()
            if state is LinkState.RESET:
                lost()
            elif state is LinkState.OK:
                tell()

        asyncio.get_running_loop().call_later(self._cluster.delay(), reach)


class FakeCluster:
    """The bookies b0, b1, ... and everybody's links to them."""

    def __init__(self, bookies: int, *, seed: int = 0, delay_max: float = 0.0, answers_in_parts: bool = False) -> None:
        """Each way takes up to `delay_max` seconds. With 0, requests are delivered in the order in which they were
        sent."""
        self.bookies = {f"b{i}": FakeBookie(f"b{i}") for i in range(bookies)}
        self.rng = Random(seed)
        self._delay_max = delay_max
        self._answers_in_parts = answers_in_parts
        self._links: dict[tuple[str, str], Link] = {}

    def names(self) -> list[str]:
        return list(self.bookies)

    def link(self, client: str, bookie_id: str) -> Link:
        key = (client, bookie_id)
        if key not in self._links:
            self._links[key] = Link(self.bookies[bookie_id], self)
        return self._links[key]

    def channel_of(self, client: str) -> Callable[[str], Link]:
        """What a client gets as its `channel_of`. Raises KeyError for an unknown bookie."""
        return lambda bookie_id: self.link(client, bookie_id)

    def copies(self, ledger_id: int, entry_id: int) -> dict[str, bytes]:
        """Returns which bookies store the entry, and the bytes that they have."""
        return {
            name: bookie.ledgers[ledger_id].entries[entry_id]
            for name, bookie in self.bookies.items()
            if ledger_id in bookie.ledgers and entry_id in bookie.ledgers[ledger_id].entries
        }

    def delay(self) -> float:
        return self.rng.uniform(0, self._delay_max) if self._delay_max else 0.0

    def split_answer(self, ids: Sequence[int], codes: Sequence[int]) -> list[tuple[Sequence[int], int]]:
        """Returns the answers as (ids, code): one for each code, or single ones in random order."""
        if self._answers_in_parts:
            single: list[tuple[Sequence[int], int]] = [([e], rc) for e, rc in zip(ids, codes, strict=True)]
            self.rng.shuffle(single)
            return single
        if len(set(codes)) == 1:
            return [(ids, codes[0])]
        return [([e for e, rc in zip(ids, codes, strict=True) if rc == code], code) for code in sorted(set(codes))]
