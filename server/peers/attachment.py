"""The common part of producers and readers. A producer or reader attaches to the broker that owns its topic, which
means that the owner creates the producer or the subscription. After the loss of the owner, the producer or reader
attaches anew, until it is closed or refused for good."""

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from magnetar.server.peers.lookup_walk_rules import Owner
from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.peers.peer_link import LinkState, PeerLink
from magnetar.server.peers.retry_rules import FATAL, Retries
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.peers.peer_client import PeerClient

log = logging.getLogger(__name__)

ATTACH_SECONDS = 30.0
"""The deadline of one attempt: lookup, connection, and the answer to PRODUCER or SUBSCRIBE. The deadline is long
because the owner may have to load the topic first."""


class Attachment(ABC):
    """The base class of a producer and of a reader. `start` begins to attach; `close` ends the producer or reader."""

    def __init__(self, client: "PeerClient", topic: TopicName, rng: random.Random) -> None:
        self.topic = topic
        self.failure: PulsarError | None = None
        """The error after which the producer or reader gave up; None while it has not given up."""
        self._client = client
        self._rng = rng
        self._retries = Retries()
        self._link: PeerLink | None = None
        self._handler_id = 0
        self._owner = Owner("")
        self._wake = asyncio.Event()
        """Set when the task has to check the two flags below."""
        self._is_lost = False
        self._is_nudged = False
        self._changed = asyncio.Event()
        """Set, and replaced by a new Event, when the producer or reader is attached, refused or closed."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._last_error = ""
        self._is_told = False
        """Whether the loss of the broker was logged, so that each loss is logged once."""

    # --- for subclasses ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def _attach(self, link: PeerLink, handler_id: int) -> None:
        """Creates the producer or reader at the broker. Raises PulsarError when the broker refuses, and PeerError when
        the broker cannot be reached. The link may have been lost during the call, so after a return without error the
        caller still has to check the link."""

    @abstractmethod
    def _take_handler_id(self, link: PeerLink) -> int:
        """Registers this handler on the link and returns the id that it has there."""

    @abstractmethod
    def _detached(self) -> None:
        """Called when the broker is lost, before the next attempt; maybe twice for one loss."""

    @abstractmethod
    def _failed(self) -> None:
        """Called when `failure` is set. There are no further attempts to attach."""

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether a broker has the producer or reader, as far as this side knows."""
        return self._link is not None

    def start(self) -> None:
        """Begins to attach. Called once."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"peer attachment {self.topic}")

    def nudge(self) -> None:
        """Called when the topic may have another owner. If an attempt to attach is waiting, the attempt is made at
        once; if the producer or reader is attached, a lookup finds out whether to move to another broker. May be called
        at any time on the loop's thread."""
        self._is_nudged = True
        self._wake.set()

    async def attached(self, deadline_seconds: float) -> None:
        """Waits until the producer or reader is attached or closed. Raises TimeoutError after the deadline, or
        `failure` after the producer or reader has given up."""
        async with asyncio.timeout(deadline_seconds):
            while not (self.is_attached or self.failure is not None or self._is_closed):
                await self._changed.wait()
        self._raise_failure()

    async def close(self) -> None:
        """Ends the producer or reader, and closes it at the broker without waiting for the answer. A second call has no
        further effect."""
        if self._is_closed:
            return
        self._is_closed = True
        link = self._leave()
        if link is not None:
            link.send(self._close_frame(self._handler_id))
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])
        self._client.forget(self)
        self._tell()

    @abstractmethod
    def _close_frame(self, handler_id: int) -> bytes:
        """Returns the frame that closes the producer or reader at the broker."""

    # --- LinkHandler -------------------------------------------------------------------------------------------------

    def on_link_closed(self, error: PeerError) -> None:
        self._last_error = str(error)
        self._leave()

    @abstractmethod
    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None: ...

    # --- attaching ---------------------------------------------------------------------------------------------------

    def _leave(self) -> PeerLink | None:
        """Gives up the present broker, so that the task attaches anew. Returns the link to the broker that was given
        up, or None if there is no open link to it."""
        link, self._link = self._link, None
        if link is not None:
            link.detach(self._handler_id)
        self._detached()
        self._is_lost = True
        self._wake.set()
        return link if link is not None and link.state is LinkState.READY else None

    async def _run(self) -> None:
        while not self._is_closed:
            self._is_lost = self._is_nudged = False
            self._wake.clear()
            try:
                async with asyncio.timeout(ATTACH_SECONDS):
                    await self._attempt()
            except FATAL as error:
                self.failure = error
                log.warning("%s: gave up: %s", self.topic, error)
                self._failed()
                self._tell()
                return
            except (PulsarError, PeerError, TimeoutError) as error:
                self._leave()
                self._last_error = str(error) or "no answer in time"
            await self._while_attached()
            pause = self._retries.pause(self._rng.random())
            if pause and not self._is_closed:
                if not self._is_told:
                    self._is_told = True
                    log.info("%s: its owner is looked for: %s", self.topic, self._last_error)
                await self._wait(pause)

    async def _attempt(self) -> None:
        owner, link = await self._client.link_of(self.topic)
        handler_id = self._handler_id = self._take_handler_id(link)
        try:
            await self._attach(link, handler_id)
        except BaseException:
            link.detach(handler_id)
            link.send(self._close_frame(handler_id))  # the broker may create the handler after this attempt
            raise
        if self._is_lost or link.state is not LinkState.READY:
            link.detach(handler_id)
            return
        self._owner, self._link = owner, link
        self._retries.succeeded()
        if self._is_told:
            self._is_told = False
            log.info("%s: found its owner: %s", self.topic, owner.url)
        self._tell()

    async def _while_attached(self) -> None:
        """Returns when the broker is lost, or when a lookup after `nudge` names another broker."""
        while self._link is not None and not self._is_lost:
            await self._wake.wait()
            self._wake.clear()
            if self._is_nudged and not self._is_lost:
                self._is_nudged = False
                await self._move_if_moved()

    async def _move_if_moved(self) -> None:
        held = self._link
        try:
            async with asyncio.timeout(ATTACH_SECONDS):
                owner = await self._client.lookup(self.topic)
        except (PulsarError, PeerError, TimeoutError) as error:
            self._last_error = str(error)
            return  # as long as the link is open, the broker may still have the topic
        if held is not None and held is self._link and owner != self._owner:
            self._last_error = f"the topic has moved to {owner.url}"
            link = self._leave()
            if link is not None:
                link.send(self._close_frame(self._handler_id))

    async def _wait(self, seconds: float) -> None:
        """Waits for the time to pass, or for a call of `nudge`."""
        try:
            async with asyncio.timeout(seconds):
                while not self._is_nudged and not self._is_closed:
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            pass

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure
