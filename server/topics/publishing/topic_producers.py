"""The producers of one topic: their names, who may produce, and what happens when storing fails.

After a failed append all producers are closed; their clients reconnect and send again all messages that were not
answered. `PublishFence` says when producers may connect again. While the storage stays down, producers are refused with
ProducerBlockedQuotaExceededException: on that error the C++ and the Java client fail their pending messages and still
try again later (ProducerImpl.connectionOpened), while any other error leaves applications with a timeout that does not
name the cause. If storing failed because the metadata store is away, producers are refused with ServiceNotReady
instead. Their messages then wait in the client, up to its send time-out, because the store comes back by itself.

Sources: AbstractTopic.addProducer, internalAddProducer, incrementTopicEpochIfNeeded; PersistentTopic.addFailed.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from magnetar.server.policies.policy_values import PublishRate
from magnetar.server.topics.client_connection import ClientConnection
from magnetar.server.topics.counters import ProducerCounters, now_ms
from magnetar.server.topics.publishing.checked_publish import CheckedPublisher
from magnetar.server.topics.publishing.deduplication import Deduplication
from magnetar.server.topics.publishing.producer import Producer, PublishGroup
from magnetar.server.topics.publishing.producer_admission import ProducerAdmission
from magnetar.server.topics.publishing.producers_topic import ProducersTopic, PublishLog
from magnetar.server.topics.publishing.publish_fence_rules import DRAINING, FenceState, PublishFence
from magnetar.server.topics.publishing.publish_limiter import PublishLimiter
from magnetar.server.topics.publishing.receipt_writers import ReceiptWriter
from magnetar.server.topics.publishing.send_rules import SendChecks
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError, ManagedLedgerTerminated
from pulsar_proto.errors import (
    NotAllowed,
    QuotaExceeded,
    ServiceNotReady,
    TopicTerminated,
)
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)

DEDUP_NAME_MAX = 1_024
"""The longest name of a producer, in characters, on a topic with deduplication, which remembers the names of producers
that have left."""


class _Drain(NamedTuple):
    """A caller of `answered_so_far`, until `groups` groups of SENDs are answered, in the order in which they began."""

    groups: int
    done: "asyncio.Future[None]"


class TopicProducers:
    """The producers of one topic. `by_name` holds the connected producers, and `access` the producers that wait for
    exclusive access."""

    def __init__(
        self,
        topic_name: str,
        owner: ProducersTopic,
        ledger: PublishLog,
        new_name: Callable[[], str],
    ) -> None:
        self.by_name: dict[str, Producer] = {}
        self.counters = ProducerCounters()
        self.last_publish_ms = 0
        self.fence = PublishFence()
        self._lacks_metadata = False
        """Whether the last failure came while the metadata store was away."""
        self.is_checked = False
        """Whether each SEND must be checked, because `dedup` or `checks` is set or because SENDs are held. The method
        `check` sets `dedup` and `checks`."""
        self._holding = 0
        self.dedup: Deduplication | None = None
        self.checks: SendChecks | None = None
        self.limiters: tuple[PublishLimiter, ...] = ()
        """The limiters of the topic's publish rate and of the broker's publish rate, as far as these rates are set."""
        self.admission = ProducerAdmission(self, ledger)
        self.access = self.admission.access
        self._topic_name = topic_name
        self.owner = owner
        self._ledger = ledger
        self._new_name = new_name
        self._loop = asyncio.get_running_loop()
        self._busy_since_ms = 0
        self._groups_begun = 0
        self._groups_answered = 0
        self._drains: list[_Drain] = []
        self._recovering: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return self._topic_name

    # --- connecting and leaving --------------------------------------------------------------------------------------

    async def add(
        self, cnx: ClientConnection, command: pb.CommandProducer, receipts: ReceiptWriter | None = None
    ) -> Producer:
        """Connects the producer that a client asks for. `receipts` takes the producer's receipts; by default they go to
        the client as frames. With the access mode WaitForExclusive the client is told to wait, and this call returns
        when it is the producer's turn. Raises PulsarError: TopicTerminated, ServiceNotReady, QuotaExceeded (the storage
        is down), NotAllowed, ProducerBusy, ProducerFenced."""
        name = command.producer_name or self._new_name()
        if self.dedup is not None and len(name) > DEDUP_NAME_MAX:
            raise NotAllowed(f"Producer name of {len(name)} characters: deduplication takes at most {DEDUP_NAME_MAX}")
        producer = Producer(self, cnx, command, name, now_ms(), receipts)
        await self.admission.admit(producer, command)
        if not cnx.is_open:
            producer.close()
            raise ServiceNotReady("The connection was closed while the producer was created")
        producer.topic_epoch = self.access.epoch
        if self.dedup is not None:
            self.dedup.table.came(name)
            producer.last_sequence_id = self.dedup.table.highest_pushed(name)
        log.info("%s connected from %s", producer, cnx.remote_address)
        return producer

    def check_open(self) -> None:
        """Raises TopicTerminated, QuotaExceeded or ServiceNotReady while the topic takes no producers."""
        if self.owner.is_terminated:
            raise TopicTerminated("Topic was already terminated")
        if not self.owner.is_open:
            raise ServiceNotReady("Topic is temporarily unavailable")
        if self.fence.is_storage_down and not self._lacks_metadata:
            raise QuotaExceeded(f"Storage does not take messages: {self.fence.reason}")
        if self.fence.state is not FenceState.OPEN:
            raise ServiceNotReady("Topic is temporarily unavailable")
        if self.dedup is not None and not self.dedup.is_complete:
            # A client that reconnects sends unanswered messages again. Until the table is complete, the broker cannot
            # tell whether these messages are stored.
            raise ServiceNotReady("Deduplication is being turned on")

    def remove(self, producer: Producer) -> None:
        """Called when a producer is closed. The producer's name is free from now on."""
        if self.by_name.get(producer.name) is not producer:
            return
        del self.by_name[producer.name]
        if self.dedup is not None:
            self.dedup.table.left(producer.name, time.monotonic())
        log.info("%s disconnected", producer)
        self.admission.left(producer)

    def disconnect_all(self) -> None:
        """Sends CLOSE_PRODUCER to every connected producer, and tells the producers that wait for exclusive access to
        try again."""
        self.admission.refuse_waiting(ServiceNotReady("Topic is temporarily unavailable"))
        for producer in list(self.by_name.values()):
            producer.disconnect()

    # --- messages ----------------------------------------------------------------------------------------------------

    def check(self, dedup: Deduplication | None, checks: SendChecks | None) -> None:
        """Sets the checks that SENDs must pass from now on. If `dedup` and `checks` are None, SENDs are not checked."""
        self.dedup, self.checks = dedup, checks
        self.hold(0)
        if dedup is not None:
            for name in self.by_name:
                dedup.table.came(name)

    def hold(self, producers: int) -> None:
        """Counts the producers that hold SENDs until a message of a transaction may be stored."""
        self._holding += producers
        self.is_checked = self.dedup is not None or self.checks is not None or self._holding > 0

    def checked_publisher(self, producer: Producer) -> CheckedPublisher:
        return CheckedPublisher(producer, self)

    def publish(self, group: PublishGroup, payloads: list[bytes]) -> None:
        self.began(group)
        self._ledger.add_entries(payloads, group.stored)

    def began(self, group: PublishGroup) -> None:
        """Counts a group. When a group is answered that does not go to the log, the caller calls `stored` or
        `failed`."""
        if self._groups_begun == self._groups_answered:
            self._busy_since_ms = now_ms()
        self._groups_begun += 1
        for limiter in self.limiters:
            limiter.took(group.producer.cnx, group.messages, group.size_bytes)

    def limit(self, rate: PublishRate, of_broker: PublishLimiter | None) -> None:
        """Sets the publish rate of this topic, and the limiter that all topics of the broker share."""
        own = [limiter for limiter in self.limiters if limiter is not of_broker]
        if not own or own[0].rate != rate:
            for limiter in own:
                limiter.close()
            own = [PublishLimiter(rate)] if rate.is_limited else []
        self.limiters = (*own,) if of_broker is None else (*own, of_broker)

    def forget(self, of_broker: PublishLimiter) -> None:
        """Removes the broker's limiter from this topic, before `limit` sets another limiter."""
        self.limiters = tuple(limiter for limiter in self.limiters if limiter is not of_broker)

    @property
    def unanswered_since_ms(self) -> int | None:
        """Since when SENDs wait and none was confirmed, in ms since the epoch; None while no SEND waits."""
        waits = self._groups_begun > self._groups_answered
        return max(self._busy_since_ms, self.last_publish_ms) if waits else None

    @property
    def rate_limited_times(self) -> int:
        """How often a connection was throttled for publishing too fast, as stats show it."""
        return sum(limiter.times for limiter in self.limiters)

    def stored(self, messages: int, size_bytes: int) -> None:
        """Called when the log has confirmed a group of SENDs: counts its messages."""
        self.counters.messages_in += messages
        self.counters.bytes_in += size_bytes
        self.last_publish_ms = now_ms()
        self.fence.succeeded()
        self._answered()

    def failed(self, error: ManagedLedgerError) -> None:
        """Called when a group of SENDs was not stored, or was stored only in part. Closes all producers, or gives the
        topic up if its log cannot be used any more."""
        if isinstance(error, ManagedLedgerTerminated):
            self.disconnect_all()
        elif not error.retriable:
            self.owner.lost_ledger(error)
        elif self.fence.failed(str(error)):
            self._lacks_metadata = self._ledger.metadata_is_away
            log.warning("%s: storing failed, producers are closed: %s", self._topic_name, error)
            self.disconnect_all()
        self._answered()

    def _answered(self) -> None:
        self._groups_answered += 1
        if self._drains:
            self._tell_drained()
        if self._groups_answered == self._groups_begun and self.fence.state is DRAINING:
            if self.dedup is not None:
                self.dedup.table.forget_unconfirmed()
            self.fence.drained()
            self._recovering = self._loop.create_task(self._recover())

    async def answered_so_far(self) -> None:
        """Returns when all groups that have begun so far are answered."""
        if self._groups_answered < self._groups_begun:
            drain = _Drain(self._groups_begun, self._loop.create_future())
            self._drains.append(drain)
            await drain.done

    def _tell_drained(self) -> None:
        while self._drains and self._drains[0].groups <= self._groups_answered:
            done = self._drains.pop(0).done
            if not done.done():
                done.set_result(None)

    async def _recover(self) -> None:
        """Tries to open a ledger until a ledger can be opened, with the pauses that the fence asks for."""
        fence = self.fence
        while self.owner.is_open:
            if fence.state is FenceState.HOLDING:
                await asyncio.sleep(fence.hold_seconds)
                fence.held()
            was_away = self._ledger.metadata_is_away
            try:
                await self._ledger.open_ledger()
            except ManagedLedgerError as error:
                # The store may have come back in the midst of the try. What counts is why this try has failed.
                self._lacks_metadata = was_away or self._ledger.metadata_is_away
                fence.tried(str(error))
                log.warning("%s: storage does not take messages: %s", self._topic_name, error)
                if not error.retriable:
                    self.owner.lost_ledger(error)
                    return
            else:
                fence.tried(None)
                log.info("%s: takes messages again", self._topic_name)
                return

    def roll_rates(self, elapsed_s: float) -> None:
        self.counters.roll(elapsed_s)
        for producer in self.by_name.values():
            producer.counters.roll(elapsed_s)

    def close(self) -> None:
        """Called when the topic closes: disconnects all producers. The topic admits no producer any more."""
        self.limit(PublishRate(), None)
        if self._recovering is not None:
            self._recovering.cancel()
        self.disconnect_all()
