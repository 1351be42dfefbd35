"""The metadata store on a ZooKeeper ensemble that is shared with Apache's brokers and bookies.

In addition to the contract (`magnetar.metadata.store`):

- A lost connection is restored without the caller's help, and `on_session` reports the loss.
- A change whose answer was lost is not repeated blindly. The store finds out whether the change happened, and raises
  OutcomeUnknownError when the records do not tell. When a create or put must not be mistaken for another client's, the
  caller writes a value that nobody else writes. A record that another client deletes while the answer is lost may be
  made a second time.
- After a reconnect a watch of one record reports the events that it missed. A recursive watch reports CHANGED of its
  own path, which stands for any change at or below that path.
- Ephemeral records end with their session. On NEW_SESSION the owner of an ephemeral record asks `owns`, and makes the
  record again if necessary.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import replace

from magnetar.metadata.errors import (
    BadVersionError,
    MetadataError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreClosedError,
    StoreUnavailableError,
    StoreWriteError,
)
from magnetar.metadata.long_lists import sorted_in_portions
from magnetar.metadata.store import (
    CancelWatch,
    Created,
    CreateOp,
    DeleteOp,
    MetadataStore,
    Op,
    PutOp,
    Record,
    SessionCallback,
    SessionEvent,
    Stat,
    WatchCallback,
)
from magnetar.metadata.tree_rules import check_path, parent_of
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.answer_rules import Rejection, error_of, multi_outcome, store_stat
from magnetar.metadata.zookeeper.client_config import ClientConfig, SessionHooks
from magnetar.metadata.zookeeper.connect_string import ConnectString
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.lost_answer_rules import Write
from magnetar.metadata.zookeeper.parent_rules import is_container
from magnetar.metadata.zookeeper.pending_request import Reply, RequestOutcome, Settled, read_children, stat_or_none
from magnetar.metadata.zookeeper.server_watches import ServerWatches
from magnetar.metadata.zookeeper.session_client import ZkClient
from magnetar.metadata.zookeeper.session_rules import Notification
from magnetar.metadata.zookeeper_codes import ErrorCode

log = logging.getLogger(__name__)

PARENT_ROUNDS_MAX = 10
"""How many times the store tries to create a record with its parents while other clients make or delete a parent. After
that the store refuses the request."""


class ZooKeeperStore(MetadataStore):
    """One session with an ensemble; `open` makes it. All calls are made on the loop's thread."""

    def __init__(self, connect: ConnectString, config: ClientConfig, rng: random.Random) -> None:
        self._connect = connect
        self._session_callbacks: dict[object, SessionCallback] = {}
        self._client = ZkClient(config, SessionHooks(self._attached, self._notified, self._session_changed), rng)
        self._watches = ServerWatches(self._client, connect)
        self._closed: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        connect: str,
        *,
        session_timeout_ms: int = 30_000,
        call_timeout_seconds: float = 30.0,
        auth: Sequence[tuple[str, bytes]] = (),
        rng: random.Random | None = None,
    ) -> "ZooKeeperStore":
        """Connects to "host:port,host:port/chroot" (metadataStoreUrl without "zk:"); makes the chroot if it is missing.

        `session_timeout_ms` is zooKeeperSessionTimeoutMillis; the server may grant another timeout. Raises ValueError
        for a bad connect string, StoreUnavailableError when no server answers.
        """
        parsed = ConnectString.parse(connect)
        config = ClientConfig(parsed.servers, session_timeout_ms, call_timeout_seconds, tuple(auth))
        store = cls(parsed, config, rng or random.Random())
        await store._client.open()
        try:
            await store._make_chroot()
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_id(self) -> int:
        return self._client.session_id

    @property
    def session(self) -> tuple[int, bytes]:
        """The id and the password of the present session. Any process that knows both can end the session. The id is 0
        when there is no session."""
        return self._client.session_id, self._client.session_password

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    @property
    def is_answering(self) -> bool:
        return self._client.is_answering

    @property
    def is_remote(self) -> bool:
        return True

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        key = object()
        self._session_callbacks[key] = callback

        def cancel() -> None:
            self._session_callbacks.pop(key, None)

        return cancel

    async def sync(self) -> None:
        """Makes later reads see all changes that any client completed before this call.

        Without a `sync`, the server may be some changes behind the other servers of the ensemble. Raises
        StoreUnavailableError when no server answers in time.
        """
        await self._read(zk_codec.sync_body(self._full("/")), "/")

    async def get(self, path: str) -> Record | None:
        reply = await self._read(zk_codec.get_body(self._full(path)), path)
        if reply is None:
            return None
        value, stat = zk_codec.parse_data(reply.payload)
        return Record(value, store_stat(stat))

    async def exists(self, path: str) -> Stat | None:
        stat = await self._stat(path)
        return None if stat is None else store_stat(stat)

    async def children(self, path: str) -> list[str]:
        reply = await self._read(zk_codec.children_body(self._full(path)), path)
        if reply is None:
            raise NoNodeError(path)
        return await sorted_in_portions(await read_children(reply.payload))

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        op = PutOp(self._full(path), value, expected_version)
        outcome = await self._write(zk_codec.put_body(op.path, value, expected_version), Write((op,)))
        return store_stat(_settled_stat(outcome) or zk_codec.parse_stat(_payload(outcome)))

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Created:
        op = CreateOp(self._full(path, is_prefix=sequential), value, ephemeral)
        if path == "/" and not sequential:
            raise NodeExistsError(path)
        body = zk_codec.create_body(op.path, value, ephemeral=ephemeral, sequential=sequential)
        try:
            outcome = await self._write(body, Write((op,), sequential))
        except NoNodeError:
            if not make_parents:
                raise
            return await self._create_with_parents(op, sequential)
        if isinstance(outcome, Settled):
            return self._created(outcome.path, _settled_stat(outcome))
        return self._created(*zk_codec.parse_created(outcome.payload))

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        op = DeleteOp(self._full(path), expected_version)
        if path == "/":
            raise NotEmptyError(path)
        await self._write(zk_codec.delete_body(op.path, expected_version), Write((op,)))

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        full = tuple(replace(op, path=self._full(op.path)) for op in ops)
        for op in ops:
            if op.path == "/" and isinstance(op, CreateOp):
                raise NodeExistsError("/")
            if op.path == "/" and isinstance(op, DeleteOp):
                raise NotEmptyError("/")
        if not ops:
            return []
        _, stats = await self._multi(Write(full))
        return [None if stat is None else store_stat(stat) for stat in stats]

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        self._full(path)  # raises for an impossible path, and when the store is closed
        return self._watches.watch(path, callback, recursive)

    async def close(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        try:
            await self._client.close()
        finally:
            self._closed.set_result(None)

    # Requests

    async def _read(self, body: bytes, path: str) -> Reply | None:
        """Sends a read. Returns the reply, or None when the record does not exist."""
        outcome = await self._client.submit(body, path)
        assert isinstance(outcome, Reply)
        if outcome.error == ErrorCode.NO_NODE:
            return None
        if outcome.error:
            raise error_of(Rejection(outcome.error, path))
        return outcome

    async def _stat(self, path: str) -> ZkStat | None:
        reply = await self._read(zk_codec.exists_body(self._full(path)), path)
        return None if reply is None else zk_codec.parse_stat(reply.payload)

    async def _write(self, body: bytes, write: Write) -> RequestOutcome:
        op = write.ops[-1]
        outcome = await self._client.submit(body, self._connect.user_path(op.path), write)
        if isinstance(outcome, Reply) and outcome.error:
            raise await self._refused(outcome.error, op)
        return outcome

    async def _multi(self, write: Write) -> tuple[str, list[ZkStat | None]]:
        """Sends a multi. Returns the path of the last op's record, and one Stat for each op.

        ZooKeeper's answer has no Stat for a create within a multi. Therefore the first created record is read right
        behind the multi, and `multi_outcome` computes the Stats that the records had when they were made.
        """
        first = next((op.path for op in write.ops if isinstance(op, CreateOp)), None)
        body = zk_codec.multi_body(write.ops, sequential=write.sequential)
        path = self._connect.user_path(write.ops[0].path)
        multi = self._client.submit(body, path, write)
        if first is None or (first == write.ops[-1].path and write.sequential):
            outcome, seen = await multi, None
        else:
            look = self._client.submit(zk_codec.exists_body(first), path)
            done = await asyncio.gather(multi, look, return_exceptions=True)
            if isinstance(done[0], BaseException):
                raise done[0]
            outcome, seen = done[0], stat_or_none(done[1])
        if isinstance(outcome, Settled):
            return outcome.path, outcome.stats
        if outcome.error:
            raise await self._refused(outcome.error, write.ops[0])
        position, code, results = zk_codec.parse_multi(outcome.payload)
        if code:
            raise await self._refused(code, write.ops[position])
        return multi_outcome(write, outcome.zxid, results, seen, self._client.session_id)

    async def _stat_soon(self, full: str) -> ZkStat | None:
        return stat_or_none(await self._client.submit(zk_codec.exists_body(full), full))

    async def _refused(self, code: int, op: Op) -> Exception:
        path = self._connect.user_path(op.path)
        if code == ErrorCode.NO_NODE and isinstance(op, CreateOp):
            return NoNodeError(self._connect.user_path(parent_of(op.path)))
        if code == ErrorCode.BAD_VERSION:
            expected = None if isinstance(op, CreateOp) else op.expected_version
            try:
                stat = await self._stat(path)
            except MetadataError:
                stat = None  # the refusal stands, even when the version cannot be read
            return BadVersionError(path, -1 if expected is None else expected, -1 if stat is None else stat.version)
        return error_of(Rejection(code, path))

    async def _create_with_parents(self, op: CreateOp, sequential: bool) -> Created:
        """Makes the record and its missing parents in one atomic change."""
        for round_number in range(PARENT_ROUNDS_MAX):
            write = Write((*await self._missing_parents(op.path, sequential), op), sequential)
            try:
                path, stats = await self._multi(write)
            except (NoNodeError, NodeExistsError) as error:
                leaf = self._connect.user_path(op.path)
                if (isinstance(error, NodeExistsError) and error.path == leaf) or (
                    round_number == PARENT_ROUNDS_MAX - 1
                ):
                    raise
                continue  # another client made or deleted a parent meanwhile
            return self._created(path, stats[-1])
        raise AssertionError("the last round returns or raises")

    async def _missing_parents(self, full: str, sequential: bool) -> list[Op]:
        missing: list[Op] = []
        ancestor = parent_of(full)
        try:
            while ancestor != "/" and await self._stat_soon(ancestor) is None:
                missing.append(CreateOp(ancestor, container=self._is_container(ancestor, sequential)))
                ancestor = parent_of(ancestor)
        except StoreUnavailableError as error:
            raise StoreWriteError(error.path, "no server told in time which parents are missing") from error
        return missing[::-1]

    def _is_container(self, full: str, sequential: bool) -> bool:
        """Returns whether a missing parent is made as a container, which ZooKeeper deletes when it is empty. The chroot
        and its parents are not containers."""
        is_below_chroot = self._connect.contains(full) and full != self._connect.chroot
        return is_below_chroot and is_container(self._connect.user_path(full), is_sequential=sequential)

    async def _make_chroot(self) -> None:
        if self._connect.chroot and await self.exists("/") is None:
            try:
                await self._create_with_parents(CreateOp(self._connect.chroot), False)
            except NodeExistsError:
                log.debug("another client made %s", self._connect.chroot)

    def _created(self, full: str, stat: ZkStat | None) -> Created:
        assert stat is not None
        return Created(self._connect.user_path(full), store_stat(stat))

    def _full(self, path: str, *, is_prefix: bool = False) -> str:
        check_path(f"{path}0" if is_prefix else path)
        if self._client.is_closed:
            raise StoreClosedError(path, "the ZooKeeper store is closed")
        return self._connect.full_path(path)

    # The hooks that the client calls

    def _attached(self) -> None:
        self._watches.attached()

    def _notified(self, event: Notification) -> None:
        self._watches.notified(event)

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.DISCONNECTED:
            self._watches.disconnected()
        for callback in list(self._session_callbacks.values()):
            try:
                callback(event)
            except Exception:
                log.exception("a session callback failed on %s", event)


def _payload(outcome: RequestOutcome) -> bytes:
    assert isinstance(outcome, Reply)
    return outcome.payload


def _settled_stat(outcome: RequestOutcome) -> ZkStat | None:
    return outcome.stats[-1] if isinstance(outcome, Settled) else None
