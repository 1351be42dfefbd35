"""Takes requests in the order in which they arrive, and answers the requests of each session in this order.

The writes of one turn of the loop are checked and staged when they arrive, share one durable commit, and are applied
one after the other: for each transaction the records are changed, then the watchers get their events, then the sender
is answered. Writes that arrive during a commit are staged for the next commit. A read is answered at once unless its
session has a request under way; in that case the read is answered directly after that request, from the records of that
moment. So a session sees its own writes, and gets an event before any answer that shows the change (the order of
FinalRequestProcessor).
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server import answers
from magnetar.metadata.zookeeper_server.acl_rules import AclTable, Identity
from magnetar.metadata.zookeeper_server.batches import Batch, Client, Entry, Latency
from magnetar.metadata.zookeeper_server.jute_reader import JuteReader
from magnetar.metadata.zookeeper_server.node_rules import child_count_of, creations_of
from magnetar.metadata.zookeeper_server.node_tree_rules import NodeTree
from magnetar.metadata.zookeeper_server.protocol import (
    PASSWORD_BYTES,
    MalformedRequestError,
    NodeEvent,
    OpCode,
    RequestError,
)
from magnetar.metadata.zookeeper_server.read_requests import Reads, Watcher
from magnetar.metadata.zookeeper_server.session_rules import Session, SessionTable, first_session_id
from magnetar.metadata.zookeeper_server.staging_rules import GONE, Staging, Txn
from magnetar.metadata.zookeeper_server.stored_records import (
    StoredState,
    acl_row,
    session_key,
    session_row,
    zxid_row,
)
from magnetar.metadata.zookeeper_server.watch_table_rules import Watches
from magnetar.metadata.zookeeper_server.write_requests import SINGLE_WRITES, parse_multi, parse_write

log = logging.getLogger(__name__)

TURN_SECONDS = 0.004
"""How long one turn of the loop applies a commit's transactions and sends their results. The rest follows in the next
turns."""
CHANGES_BEFORE_LOOKS = 64
"""How many requests and changes of records a turn applies before it looks at the clock."""
WAITING_MAX = 8_192
"""How many requests may wait for commits. Beyond that no more requests are read from any connection."""
WAITING_BYTES_MAX = 64 << 20
"""How many bytes the requests that wait may have. Beyond that no more requests are read from any connection."""

Commit = Callable[[dict[bytes, bytes], Callable[[], None]], None]
"""Makes rows durable and then calls the function (`Journal.commit`)."""
EPOCH = 1 << 32
"""The number of transaction ids in one epoch. After the operator accepted an older state, the server goes on in the
next epoch, so that clients that have seen later transactions can connect again."""


class Processor:
    """The requests of all sessions. All calls are made on the loop's thread."""

    def __init__(self, state: StoredState, tick_ms: int, commit: Commit) -> None:
        self.tree: NodeTree = state.tree
        self.acls: AclTable = state.acls
        self.watches: Watches[Watcher] = Watches()
        self.sessions = SessionTable(tick_ms)
        self.clients: dict[int, Client] = {}
        """The connection of each session that has one."""
        self.zxid = state.zxid
        """The number of the last transaction that was applied."""
        self._reads = Reads(self.tree, self.acls, self.watches)
        self._staging = Staging(self.tree, self.acls, state.zxid)
        self._commit = commit
        self._open = Batch()
        self._under_way: Batch | None = None
        self._flush_scheduled = False
        self._next_session_id = first_session_id(wall_clock_ms())
        self._idle: asyncio.Future[None] | None = None
        self.waiting = self.waiting_bytes = 0
        self._paused: list[Callable[[], None]] = []
        self.received = self.sent = 0
        self.latency = Latency()
        moment_ms = monotonic_ms()
        for session in state.sessions:
            self.sessions.add(session, moment_ms)
            self._next_session_id = max(self._next_session_id, session.session_id + 1)

    @property
    def is_full(self) -> bool:
        return self.waiting >= WAITING_MAX or self.waiting_bytes >= WAITING_BYTES_MAX

    def when_not_full(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, when requests may be read again."""
        self._paused.append(callback)

    def skip_epoch(self) -> None:
        """Goes on in the next epoch of transaction ids, after the operator accepted an older state of the file."""
        self._staging.zxid = self.zxid = (self.zxid // EPOCH + 1) * EPOCH
        self._open.rows.update((zxid_row(self.zxid),))
        self._schedule_flush()

    def reset_statistics(self) -> None:
        self.received = self.sent = 0
        self.latency = Latency()

    # Sessions

    def create_session(self, client: Client, timeout_ms: int) -> int:
        """Begins a session and returns its id. `client.attached` is called when the session is durable."""
        session = Session(self._next_session_id, timeout_ms, secrets.token_bytes(PASSWORD_BYTES))
        self._next_session_id += 1
        self.sessions.add(session, monotonic_ms())
        self.clients[session.session_id] = client
        self._open.rows.update((session_row(session),))
        self._enter(client, session, self._staging.begin_session(), partial(client.attached, session), 0)
        return session.session_id

    def attach(self, client: Client, session_id: int, password: bytes, timeout_ms: int) -> None:
        """Continues a session on another connection, or tells the client that the session is over. An older connection
        of the session is closed."""
        session = self.sessions.get(session_id)
        if session is None or not secrets.compare_digest(session.password, password):
            client.refused()
            return
        older = self.clients.get(session_id)
        if older is not None:
            self.detach(older)
            older.end()
        if self.sessions.touch(session_id, timeout_ms, monotonic_ms()):
            self.clients[session_id] = client
            batch = _under_way(session)
            if batch is None:
                client.attached(session)
            else:
                # Requests that the session sent on its older connection are handled before the requests on this
                # connection.
                self._enter(client, session, None, partial(client.attached, session), 0, batch)
        else:
            client.refused()

    def detach(self, client: Client) -> None:
        """Forgets a connection that is gone. The session of this connection lasts until it expires."""
        self.watches.remove_watcher(client)
        if self.clients.get(client.session_id) is client:
            del self.clients[client.session_id]

    def expire_sessions(self) -> None:
        """Ends the sessions whose time is over."""
        for session in self.sessions.expired(monotonic_ms()):
            log.info("session 0x%x expired: it was silent for %d ms", session.session_id, session.timeout_ms)
            self._end_session(session, None, b"", 0)

    def delete_empty_containers(self) -> int:
        """Deletes the containers that had children and have none any more. Returns the number of deleted containers."""
        deleted = 0
        for path in list(self.tree.containers):
            node = self.tree.find(path)
            if node is None or child_count_of(node) or not creations_of(node):
                continue
            txn = self._staging.delete_container(path)
            if txn is not None:
                self._enter(None, None, txn, b"", 0)
                deleted += 1
        return deleted

    # Requests

    def take(self, client: Client, xid: int, opcode: int, frame: bytes, offset: int) -> bool:
        """Takes a request, whose fields begin at `offset`. Returns False for a request of an unknown type. The
        connection ends after the answer to such a request (UnimplementedRequestProcessor), and the caller must take no
        more requests of this connection."""
        self.received += 1
        session = self.sessions.get(client.session_id)
        if session is None or session.is_closing:
            self._refuse(client, session, xid, ErrorCode.SESSION_EXPIRED, len(frame))
        elif opcode in self._reads.by_opcode:
            batch = _under_way(session)
            if batch is None:
                self._read(client, xid, opcode, frame, offset)
            else:
                reply = partial(self._read, client, xid, opcode, frame, offset)
                self._enter(client, session, None, reply, len(frame), batch)
        elif opcode in SINGLE_WRITES or opcode == OpCode.MULTI:
            self._write(client, session, xid, opcode, frame, offset)
        elif opcode == OpCode.CLOSE_SESSION:
            session.is_closing = True
            self._end_session(session, client, xid, len(frame))
        else:
            self._refuse(client, session, xid, ErrorCode.UNIMPLEMENTED, len(frame), and_end=True)
            return False
        return True

    def _read(self, client: Client, xid: int, opcode: int, frame: bytes, offset: int) -> None:
        if client.is_closed:
            return  # a watch that this read sets would stay for ever, because its connection is gone already
        try:
            fields = self._reads.by_opcode[opcode](client, JuteReader(frame, offset))
        except RequestError as error:
            client.send(answers.answer(xid, self.zxid, error.code))
        except MalformedRequestError as error:
            log.info("session 0x%x: a request of type %d is malformed: %s", client.session_id, opcode, error)
            client.send(answers.answer(xid, self.zxid, ErrorCode.MARSHALLING_ERROR))
        else:
            if isinstance(fields, bytes):
                client.send(answers.answer(xid, self.zxid, ErrorCode.OK, fields))
            else:
                client.hold_for(xid, self.zxid, fields)

    def _write(self, client: Client, session: Session, xid: int, opcode: int, frame: bytes, offset: int) -> None:
        reader = JuteReader(frame, offset)
        identities: Sequence[Identity] = client.identities
        txn: Txn | None
        try:
            if opcode == OpCode.MULTI:
                ops = parse_multi(reader)
                txn, fields = self._staging.multi(ops, client.session_id, identities, wall_clock_ms())
            else:
                op = parse_write(OpCode(opcode), reader)
                txn, fields = self._staging.write(op, client.session_id, identities, wall_clock_ms())
        except RequestError as error:
            self._refuse(client, session, xid, error.code, len(frame))
        except MalformedRequestError as error:
            log.info("session 0x%x: a request of type %d is malformed: %s", client.session_id, opcode, error)
            self._refuse(client, session, xid, ErrorCode.MARSHALLING_ERROR, len(frame))
        else:
            if txn is None:
                self._enter(client, session, None, partial(self._answer, client, xid, fields), len(frame))
            else:
                self._enter(client, session, txn, answers.answer(xid, txn.zxid, ErrorCode.OK, fields), len(frame))

    def _refuse(
        self,
        client: Client,
        session: Session | None,
        xid: int,
        code: ErrorCode,
        size: int,
        *,
        and_end: bool = False,
    ) -> None:
        """Answers a write that was not staged. The error may be due to another change that is not durable yet, so the
        answer waits until all earlier changes are durable."""

        def refuse() -> None:
            client.send(answers.answer(xid, self.zxid, code))
            if and_end:
                client.end()

        if self._under_way is None and not self._open.entries:
            refuse()
        else:
            self._enter(client, session, None, refuse, size)

    def _answer(self, client: Client, xid: int, fields: bytes) -> None:
        client.send(answers.answer(xid, self.zxid, ErrorCode.OK, fields))

    def _end_session(self, session: Session, client: Client | None, xid: "int | bytes", size: int) -> None:
        txn = self._staging.end_session(session.session_id)
        self._open.rows[session_key(session.session_id)] = GONE

        def ended() -> None:
            self.sessions.remove(session.session_id)
            if client is not None and isinstance(xid, int):
                client.send(answers.answer(xid, txn.zxid, ErrorCode.OK))
            connection = self.clients.get(session.session_id)
            if connection is not None:
                self.detach(connection)
                connection.end()

        self._enter(client, session, txn, ended, size)

    # Batches

    def _enter(
        self,
        client: Client | None,
        session: Session | None,
        txn: Txn | None,
        reply: "bytes | Callable[[], None]",
        size: int,
        batch: Batch | None = None,
    ) -> None:
        if batch is None:
            batch = self._open
            self._schedule_flush()
        if not batch.entries:
            batch.began = time.monotonic()
        batch.entries.append(Entry(client, txn, reply, size))
        self.waiting += 1
        self.waiting_bytes += size
        if txn is not None:
            batch.rows.update(txn.changes)
        if client is not None:
            client.waiting += 1
        if session is not None:
            session.last_batch = batch

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled and self._under_way is None:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        batch, self._open = self._open, Batch()
        self._under_way = batch
        if self._staging.new_acls:
            batch.rows.update(acl_row(acl_id, self.acls[acl_id]) for acl_id in self._staging.new_acls)
            self._staging.new_acls.clear()
        if not batch.rows and self._staging.zxid == self.zxid:
            self._apply(batch)
        else:
            batch.rows.update((zxid_row(self._staging.zxid),))
            self._commit(batch.rows, lambda: self._apply(batch))

    def _apply(self, batch: Batch) -> None:
        """Applies a durable batch and answers its senders. A large batch is spread over several turns of the loop."""
        until = time.monotonic() + TURN_SECONDS
        entries, done = batch.entries, 0
        while batch.done < len(entries):
            client, txn, reply, size = entries[batch.done]
            batch.done += 1
            done += 1
            if txn is not None:
                self._apply_txn(txn)
                done += len(txn.changes)
            if client is not None:
                client.waiting -= 1
            self.waiting -= 1
            self.waiting_bytes -= size
            if not isinstance(reply, bytes):
                reply()
            elif client is not None:
                client.send(reply)
            if client is not None:
                client.answered()
            if done >= CHANGES_BEFORE_LOOKS and time.monotonic() > until:
                asyncio.get_running_loop().call_soon(self._apply, batch)
                return
        batch.is_answered = True
        self._under_way = None
        if entries:
            self.latency.note(time.monotonic() - batch.began)
        if self._open.entries or self._open.rows:
            self._schedule_flush()
        elif self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        if self._paused and not self.is_full:
            paused, self._paused = self._paused, []
            for callback in paused:
                callback()

    def _apply_txn(self, txn: Txn) -> None:
        tree, zxid = self.tree, txn.zxid
        for path, node in txn.changes:
            if node:
                tree.put(path, node)
            else:
                tree.remove(path)
        self._staging.applied(txn)
        self.zxid = zxid
        watches = self.watches
        for kind, path, acl_id in txn.events:
            if kind == NodeEvent.CHILDREN_CHANGED:
                watchers = watches.children.trigger(path)
            elif kind == NodeEvent.DELETED:
                watchers = watches.deleted(path)
            else:
                watchers = watches.data.trigger(path)
            if watchers:
                frame = answers.event(kind, path, zxid)
                for watcher in watchers:
                    if self._reads.may_read(acl_id, watcher):
                        watcher.send(frame)

    async def drained(self) -> None:
        """Returns when no request is under way. The caller must have stopped taking requests."""
        if self._under_way is not None or self._open.entries or self._open.rows:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle


def _under_way(session: Session) -> Batch | None:
    """Returns the last batch that has unanswered requests of the session, or None. The session's next request has to
    wait behind this batch."""
    batch = session.last_batch
    return batch if isinstance(batch, Batch) and not batch.is_answered else None


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
