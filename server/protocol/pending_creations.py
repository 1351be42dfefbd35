"""Keeps the creations of one connection: producers or consumers whose PRODUCER or SUBSCRIBE is not answered yet.

A creation runs to its end in any case, so that no topic is left half changed. If the client closed the producer or
consumer meanwhile, or left, the creation is abandoned: its result is closed at once, and the client gets no answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from pulsar_proto.errors import ServiceNotReady

log = logging.getLogger(__name__)


class ProducerOrConsumer(Protocol):
    """A producer or a consumer of a topic."""

    @property
    def is_closed(self) -> bool: ...

    def close(self) -> object: ...


TopicT = TypeVar("TopicT")
ProducerOrConsumerT = TypeVar("ProducerOrConsumerT", bound=ProducerOrConsumer)


class PendingCreation:
    """One creation that is under way."""

    __slots__ = ("is_abandoned", "waiting")

    def __init__(self) -> None:
        self.is_abandoned = False
        self.waiting: asyncio.Task[object] | None = None
        """The task of a creation that may wait for other clients without end. Abandoning the creation cancels it."""

    def abandon(self) -> None:
        """Called when nobody waits for the result of the creation any more."""
        self.is_abandoned = True
        if self.waiting is not None:
            self.waiting.cancel()


class PendingCreations:
    """The creations of one connection that are under way, either of producers or of consumers, by the ids that the
    client chose."""

    __slots__ = ("_by_id", "_kind")

    def __init__(self, kind: str) -> None:
        """`kind` is "producer" or "consumer", and is used in the texts of errors and log lines."""
        self._kind = kind
        self._by_id: dict[int, PendingCreation] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, attached_id: int) -> PendingCreation:
        """Adds a creation and returns it. Raises ServiceNotReady while another creation with this id is under way."""
        if attached_id in self._by_id:
            raise ServiceNotReady(f"{self._kind.capitalize()} is already present on the connection")
        creation = self._by_id[attached_id] = PendingCreation()
        return creation

    def end(self, attached_id: int, creation: PendingCreation) -> None:
        """Forgets the creation. Has no effect when the client has closed the id meanwhile, even if the client uses the
        id for another creation."""
        if self._by_id.get(attached_id) is creation:
            del self._by_id[attached_id]

    def abandon(self, attached_id: int) -> None:
        """Called when the client closes this id. It has no effect when no creation with this id is under way."""
        creation = self._by_id.pop(attached_id, None)
        if creation is not None:
            creation.abandon()

    def abandon_all(self) -> None:
        """Called when the connection is closed: abandons all creations. Each of them stays pending until it ends."""
        for creation in self._by_id.values():
            creation.abandon()

    async def finish(
        self,
        attached_id: int,
        creation: PendingCreation,
        topic: Awaitable[TopicT],
        attach: Callable[[TopicT], Awaitable[ProducerOrConsumerT]],
        remote_address: str,
    ) -> ProducerOrConsumerT | None:
        """Awaits the topic, then `attach(topic)`, and returns the resulting producer or consumer. Returns None when the
        creation was abandoned meanwhile. Raises the errors of `topic` and `attach`, and ServiceNotReady when the topic
        has closed the new producer or consumer already."""
        try:
            found = await topic
            if creation.is_abandoned:
                return None
            attached = await attach(found)
        except Exception:
            if creation.is_abandoned:
                return None
            raise
        finally:
            self.end(attached_id, creation)
        if creation.is_abandoned:
            log.info("%s: %s %d was closed while it was created", remote_address, self._kind, attached_id)
            attached.close()
            return None
        if attached.is_closed:
            raise ServiceNotReady(f"The topic closed the {self._kind} while it was created")
        return attached
