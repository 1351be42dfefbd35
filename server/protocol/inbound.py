"""Handles the frames that one connection has read, in order and in portions of time.

Consecutive SENDs go to their producers as one group for each producer (`send_groups.publish_run`). Every other command
is handled in its place, so a producer's commands keep their order. A handler that must wait becomes a task
(`requests`), and later commands do not wait for that task.

One read can hold twenty thousand small commands, and one ACK can hold as many ids. After a portion, the remaining
frames wait until it is the connection's turn again (`turns.TurnQueue`), and the connection reads nothing until they are
handled. So fifty clients that send as fast as possible do not delay other clients more than one such client does.
"""

import logging
import time
from asyncio import Future
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from magnetar.server.process.turns import OWNER_PORTION_SECONDS, TurnQueue
from magnetar.server.protocol.command_handler import CommandHandler
from magnetar.server.protocol.connection_rules import CLOSED, CONNECTED, HANDLE, CommandVerdict
from magnetar.server.protocol.requests import Requests
from magnetar.server.protocol.send_groups import publish_run
from pulsar_proto.errors import UnknownCommand
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.framing import Frame
from pulsar_proto.wire.id_list import cut_id_list, is_long_id_list
from pulsar_proto.wire.plain_ack import PLAIN_ACK_PREFIX, acks_in_transaction, plain_ack
from pulsar_proto.wire.send_run import PLAIN_SEND_PREFIX

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection

log = logging.getLogger(__name__)

KEEP_ALIVE = (pb.BaseCommand.PING, pb.BaseCommand.PONG)
"""The commands by which a client shows only that it is alive."""


class Inbound:
    """Handles the frames of one connection. Implements `frame_receiver.FrameReceiver`. Each call gets the connection as
    an argument, because a stored reference would make a cycle that only the garbage collector could free."""

    __slots__ = ("_apart_until", "_at", "_commands", "_frames", "_ignored_any", "_requests", "_then", "_turns")

    def __init__(self, commands: Mapping[int, CommandHandler], turns: TurnQueue) -> None:
        """`commands` is the table of handlers by the command's type."""
        self._commands = commands
        self._requests = Requests()
        self._turns = turns
        self._frames: list[Frame] = []
        self._at = 0
        """The index in `_frames` of the frame to be handled next. `_frames` is empty while no frame waits."""
        self._apart_until = 0
        """The index in `_frames` up to which ACKs of transactions are handled one by one, because they could not be
        applied together."""
        self._then: Callable[[], None] | None = None
        self._ignored_any = False

    def take(self, cnx: "Connection", frames: list[Frame], then: Callable[[], None] | None = None) -> None:
        """Handles the frames, now or soon, and calls `then` when all are handled (see `FrameReceiver.take`)."""
        self._then = then or self._then
        if self._frames:
            self._frames += frames
        else:
            self._frames = frames
            self._run(cnx, self._turns.portion_seconds)

    def forget(self) -> None:
        self._frames, self._then = [], None
        self._requests.cancel()

    def _run(self, cnx: "Connection", portion_seconds: float) -> None:
        """Handles frames for about `portion_seconds`. If frames are left after that, stops the connection from reading
        and queues for another turn. Otherwise calls `then`."""
        frames = self._frames
        ends_at = time.monotonic() + portion_seconds
        index = self._at
        while index < len(frames):
            if frames[index][0].startswith(PLAIN_SEND_PREFIX) and cnx.session.state is CONNECTED:
                index = publish_run(cnx, frames, index)
            else:
                index = self._handle(cnx, frames, index)
            if cnx.session.state is CLOSED:
                return
            if index < len(frames) and time.monotonic() >= ends_at:
                self._at = index
                cnx.throttle_reading(self)
                self._turns.add(partial(self._go_on, cnx))
                return
        self._frames, self._at, self._apart_until = [], 0, 0
        if self._then is not None:
            then, self._then = self._then, None
            then()

    def _go_on(self, cnx: "Connection") -> None:
        if not cnx.is_open:
            return
        with cnx.faults_closing():
            self._run(cnx, OWNER_PORTION_SECONDS)
        if not self._frames:
            cnx.release_reading(self)

    def _handle(self, cnx: "Connection", frames: list[Frame], index: int) -> int:
        """Handles the command at `index`, and returns the index of the next one. ACKs of one transaction that follow
        one another are handled together. An ACK or redelivery with a long list of ids is not handled: shorter commands
        take its place, so that other connections can have a turn between two of them."""
        frame = frames[index]
        if cnx.session.state is CONNECTED and frame[0].startswith(PLAIN_ACK_PREFIX):
            ack = plain_ack(frame[0])
            if ack is not None:
                consumer = cnx.consumers.get(ack[0])
                if consumer is not None:
                    consumer.ack_individual(ack[1])
                return index + 1
            acked = self._ack_in_transaction(cnx, frames, index)
            if acked:
                return index + acked
        if is_long_id_list(frame[0]):
            shorter = cut_id_list(frame[0])
            if len(shorter) > 1:
                frames[index : index + 1] = [(data, None) for data in shorter]
                return index
        self._handle_one(cnx, frame)
        return index + 1

    def _ack_in_transaction(self, cnx: "Connection", frames: list[Frame], index: int) -> int:
        """If the frames from `index` on are ACKs of one transaction that can be applied together, applies them and
        returns their number. Otherwise returns 0, and the commands are handled one by one."""
        acks = None if index < self._apart_until else acks_in_transaction(frames, index)
        if acks is None:
            return 0
        count = len(acks.entries)
        consumer = cnx.consumers.get(acks.consumer_id)
        durable: Future[None] | None = None
        if consumer is not None and self._requests.has_room(count):
            durable = consumer.ack_in_transaction(acks)
        if durable is None:
            self._apart_until = index + count
            return 0
        cnx.traffic.counters.uses += count
        self._requests.wait(cnx, self._commands[pb.BaseCommand.ACK], acks, durable, count)
        return count

    def _handle_one(self, cnx: "Connection", frame: Frame) -> None:
        try:
            command = parse_command(frame[0])
        except UnknownCommand as error:
            # The log gets only one line, even if a peer repeats such commands.
            level = logging.DEBUG if self._ignored_any else logging.INFO
            self._ignored_any = True
            log.log(level, "%s: %s ignored", cnx.remote_address, error)
            return
        verdict = cnx.session.judge(command.type)
        if verdict is not HANDLE:
            if verdict is CommandVerdict.CLOSE:
                cnx.close(cnx.session.why_illegal(command.type), logging.WARNING)
            return
        if command.type == pb.BaseCommand.SEND:
            publish_run(cnx, [frame], 0)
            return
        if command.type not in KEEP_ALIVE:
            cnx.traffic.counters.uses += 1
        handler = self._commands[command.type]
        self._requests.run(cnx, handler, getattr(command, handler.field), frame[0].isascii())
