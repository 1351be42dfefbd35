"""Admits producers to one topic: frees their names, obeys the limit and the access modes, and lets producers wait for
exclusive access.

Whoever is in a newcomer's way is first asked whether its connection is alive, so that a client that lost its connection
is not refused because of itself (`liveness.close_dead`).

Sources: AbstractTopic.addProducer, internalAddProducer, tryOverwriteOldProducer, incrementTopicEpochIfNeeded.
"""

import asyncio
import logging
from typing import NamedTuple, Protocol

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.liveness import close_dead
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.publishing.producer_access_rules import (
    TOPIC_EPOCH,
    AccessVerdict,
    ProducerAccess,
    stored_epoch,
)
from magnetar.server.topics.publishing.producers_topic import ProducersTopic, PublishLog
from pulsar_proto.errors import ProducerBusy, ProducerFenced, ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import producer_success_frame

log = logging.getLogger(__name__)


class WaitingProducer(NamedTuple):
    producer: Producer
    granted: "asyncio.Future[None]"


class ConnectedProducers(Protocol):
    """The producers of the topic. The admission adds to `by_name`; `TopicProducers.remove` removes from it."""

    @property
    def by_name(self) -> dict[str, Producer]: ...

    @property
    def owner(self) -> ProducersTopic: ...

    def check_open(self) -> None:
        """Raises PulsarError while the topic takes no producers."""


class ProducerAdmission:
    """Decides about the producers of one topic, and keeps those that wait for exclusive access."""

    __slots__ = ("_granting", "_log", "_producers", "access")

    def __init__(self, producers: ConnectedProducers, publish_log: PublishLog) -> None:
        self.access: ProducerAccess[WaitingProducer] = ProducerAccess(stored_epoch(publish_log.properties))
        self._producers = producers
        self._log = publish_log
        self._granting: asyncio.Task[None] | None = None

    async def admit(self, producer: Producer, command: pb.CommandProducer) -> None:
        """Adds the producer to the connected ones. With the access mode WaitForExclusive the client is told to wait,
        and this call returns when it is the producer's turn. Raises ProducerBusy, ProducerFenced, and the errors of
        `check_open`."""
        mode = command.producer_access_mode
        epoch = command.topic_epoch if command.HasField("topic_epoch") else None
        verdict = await self._verdict(producer, mode, epoch)
        if verdict is AccessVerdict.WAIT:
            await self._wait_for_turn(producer, command.request_id)
        elif mode == pb.Shared:
            self._producers.by_name[producer.name] = producer
        else:
            if verdict is AccessVerdict.FENCE_OTHERS:
                self._fence_others()
            await self._become_exclusive(producer, self.access.next_epoch(epoch))

    async def _verdict(self, producer: Producer, mode: int, epoch: int | None) -> AccessVerdict:
        """Judges the producer. If it would be refused, asks first whether the others' connections are alive, and judges
        again. Nothing is awaited after the judgement."""
        await self._free_name(producer)
        try:
            return self._judge(mode, epoch)
        except (ProducerBusy, ProducerFenced):
            if not self._producers.by_name:
                raise
        await close_dead(self._producers.by_name.values(), producer.cnx)
        await self._free_name(producer)
        return self._judge(mode, epoch)

    def _judge(self, mode: int, epoch: int | None) -> AccessVerdict:
        connected, limit = len(self._producers.by_name), self._producers.owner.policies.max_producers_per_topic
        if 0 < limit <= connected:
            raise ProducerBusy("Topic reached max producers limit")
        return self.access.judge(mode, connected, epoch)

    async def _free_name(self, producer: Producer) -> None:
        """Waits until the producer's name is free. Replaces an older connection of the same producer, and closes a
        producer whose client is dead. Makes all checks again after each await. Raises ProducerBusy when a live producer
        has the name, and another PulsarError when a check fails."""
        by_name = self._producers.by_name
        while True:
            self._producers.check_open()
            existing = by_name.get(producer.name)
            if existing is None:
                return
            if producer.is_successor_of(existing):
                existing.disconnect()
            elif existing.cnx is producer.cnx or await existing.cnx.check_liveness():
                if by_name.get(producer.name) is existing:
                    raise ProducerBusy(
                        f"Producer with name '{producer.name}' is already connected to topic '{producer.topic_name}'"
                    )
            else:
                existing.close()

    # --- exclusive access --------------------------------------------------------------------------------------------

    def left(self, producer: Producer) -> None:
        """Called when a producer was removed from the connected ones. If none is left, the first producer that waits
        for exclusive access gets access."""
        if self.access.exclusive_name == producer.name:
            self.access.exclusive_name = None
        if not self._producers.by_name and self.access.waiting and self._granting is None:
            self._granting = asyncio.get_running_loop().create_task(self._grant_next())

    async def _become_exclusive(self, producer: Producer, epoch: int) -> None:
        """Makes the producer the exclusive producer and stores the epoch. The producer counts as exclusive before the
        epoch is stored, so that no other producer gets access meanwhile. Raises PulsarError when the epoch cannot be
        stored, or the producer was closed meanwhile."""
        access = self.access
        access.exclusive_name = producer.name
        self._producers.by_name[producer.name] = producer
        try:
            if epoch != access.epoch:
                with storage_faults_told():
                    await self._log.set_properties({TOPIC_EPOCH: str(epoch)})
                access.epoch = epoch
        except BaseException:
            producer.close()
            raise
        if producer.is_closed:
            raise ProducerFenced("Fenced out")

    async def _wait_for_turn(self, producer: Producer, request_id: int) -> None:
        waiter = WaitingProducer(producer, asyncio.get_running_loop().create_future())
        self.access.waiting.append(waiter)
        log.info("%s waits for exclusive access", producer)
        producer.cnx.write(producer_success_frame(request_id, producer.name, producer_ready=False))
        try:
            # The order of waiting is that of coming, so the producer waits already while the others are asked.
            await close_dead(self._producers.by_name.values(), producer.cnx)
            await waiter.granted
        except asyncio.CancelledError:
            producer.close()  # the client left, perhaps at the moment when it got access
            raise

    async def _grant_next(self) -> None:
        """Gives access to the first waiting producer whose client is alive. A producer keeps its place while its client
        is asked, so that no newcomer gets access meanwhile."""
        waiting = self.access.waiting
        try:
            while not self._producers.by_name and self._producers.owner.is_open and waiting:
                waiter = waiting[0]
                is_alive = waiter.granted.done() or await waiter.producer.cnx.check_liveness()
                if self._producers.by_name or not waiting or waiting[0] is not waiter:
                    continue  # a producer that fences others came meanwhile
                self.access.next_waiting()
                if waiter.granted.done():
                    continue
                if not is_alive:
                    waiter.granted.set_exception(ServiceNotReady("The connection was closed"))
                    continue
                try:
                    await self._become_exclusive(waiter.producer, self.access.next_epoch(None))
                except Exception as error:
                    if not waiter.granted.done():
                        waiter.granted.set_exception(error)
                else:
                    if not waiter.granted.done():  # if `admit` was cancelled, it closes the producer itself
                        waiter.granted.set_result(None)
        finally:
            self._granting = None

    def _fence_others(self) -> None:
        self.refuse_waiting(ProducerFenced("Fenced out"))
        for producer in list(self._producers.by_name.values()):
            producer.disconnect()

    def refuse_waiting(self, error: Exception) -> None:
        """Refuses the producers that wait for exclusive access."""
        while (waiter := self.access.next_waiting()) is not None:
            if not waiter.granted.done():
                waiter.granted.set_exception(error)
