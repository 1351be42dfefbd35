"""This broker's client for topics that any broker of the cluster may own: lookups, producers and readers.

The client corresponds to PulsarService.getClient of Apache's broker: it is a normal Pulsar client, which logs in with
the brokerClient… credentials and begins each lookup at this broker itself. A link is one connection to a broker; the
owner of a topic is the broker that serves it.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers.attachment import Attachment
from magnetar.server.peers.lookup_walk_rules import Ask, LookupWalk, Owner
from magnetar.server.peers.peer_addresses import PeerAddresses, place_of
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.peers.peer_errors import PeerError, PeerTimeoutError, PeerUnreachableError
from magnetar.server.peers.peer_link import PeerLink
from magnetar.server.peers.peer_links import PeerLinks
from magnetar.server.peers.peer_producer import PeerProducer
from magnetar.server.peers.peer_reader import PeerReader
from magnetar.server.peers.read_window_rules import EARLIEST, MessagePlace
from pulsar_proto.errors import error_of_code
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

Kind = TypeVar("Kind", PeerProducer, PeerReader)

LOOKUPS_MAX = 256
"""How many lookups are made at the same time. A further lookup waits for its turn."""
REQUEST_SECONDS = 30.0
"""The deadline of one request (operationTimeout)."""
LOOKUP_REQUEST_SECONDS = 10.0
"""The deadline of one step of a lookup."""
ATTACHMENTS_MAX = 20_000
"""How many producers and readers may be open. A further one is refused with PeerUnreachableError."""
OWN_LINK_READ_BYTES = 16 << 10
"""How many bytes a connection of `own_links` reads in one turn of the event loop. The number is small, because these
connections bring many messages, which their user handles at once."""
UNAWAITED_ID_FIRST = 1 << 62
"""The first id of requests whose answer nobody waits for. These ids differ from the ids of all other requests."""


class PeerClient:
    """The client for topics. One object serves the process. All calls are made on the loop's thread."""

    def __init__(
        self,
        service_urls: Callable[[], Sequence[str]],
        addresses: PeerAddresses | None,
        settings: PeerSettings,
        credentials: PeerCredentials,
        *,
        rng: random.Random | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`service_urls` returns the addresses at which lookups begin, which are this broker's own. The client shows
        its credentials at these addresses and at the `addresses` of the cluster's brokers."""
        self._service_urls = service_urls
        self._addresses = addresses
        self._settings = settings
        self._credentials = credentials
        self._rng = rng or random.Random()
        self._clock_ms = clock_ms
        self._links = PeerLinks(settings, credentials, self._is_trusted)
        self._attachments: set[Attachment] = set()
        self._lookups = asyncio.Semaphore(LOOKUPS_MAX)
        self._unawaited = UNAWAITED_ID_FIRST
        self._is_closed = False

    # --- topics ------------------------------------------------------------------------------------------------------

    def producer(self, topic: TopicName, *, name: str = "", schema: pb.Schema | None = None) -> PeerProducer:
        """Returns a producer of a topic, or of one partition. The producer begins to attach at once; its method
        `attached` waits until it is attached. Raises PeerUnreachableError when the client is closed or has
        ATTACHMENTS_MAX producers and readers."""
        return self._started(PeerProducer(self, topic, self._rng, name=name, schema=schema, clock_ms=self._clock_ms))

    def reader(
        self,
        topic: TopicName,
        *,
        start: MessagePlace = EARLIEST,
        read_compacted: bool = False,
        subscription_prefix: str = "reader",
        creates_topic: bool = True,
    ) -> PeerReader:
        """Returns a reader of a topic, or of one partition, that begins behind `start`. With `creates_topic` a missing
        topic is created if the namespace allows that; otherwise the reader gives up with TopicNotFound. Raises
        PeerUnreachableError when the client is closed or has ATTACHMENTS_MAX producers and readers."""
        reader = PeerReader(
            self,
            topic,
            self._rng,
            start=start,
            read_compacted=read_compacted,
            subscription_prefix=subscription_prefix,
            creates_topic=creates_topic,
        )
        return self._started(reader)

    async def partitions(self, topic: TopicName, *, creates_topic: bool = True) -> int:
        """Returns the number of a topic's partitions, or 0 for a topic without partitions. For a missing topic,
        `creates_topic` creates it if the namespace wants partitions, and 0 means that it would be created without
        partitions; without `creates_topic`, raises TopicNotFound. Raises PulsarError when a broker refuses, and
        PeerError when no broker answers."""
        ask = pb.CommandPartitionedTopicMetadata(topic=topic.full, metadata_auto_creation_enabled=creates_topic)
        command = pb.BaseCommand(type=pb.BaseCommand.PARTITIONED_METADATA, partitionMetadata=ask)
        link = await self._service_link()
        answer = (await self.request(link, command, "partitionMetadata")).partitionMetadataResponse
        if answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed:
            raise error_of_code(answer.error, answer.message)
        return answer.partitions

    async def close(self) -> None:
        """Closes all producers, readers and connections. A second call has no further effect."""
        self._is_closed = True
        for attachment in list(self._attachments):
            await attachment.close()
        await self._links.close()

    def nudge(self, namespace: str | None = None) -> None:
        """Called when bundles have changed their owner. All producers and readers, or those of one namespace if given,
        look up whether their topics have moved, and the waiting ones try again at once."""
        for attachment in self._attachments:
            if namespace is None or attachment.topic.namespace == namespace:
                attachment.nudge()

    # --- lookups -----------------------------------------------------------------------------------------------------

    async def lookup(self, topic: TopicName) -> Owner:
        """Returns the owner of a topic. Raises PulsarError for a refusal, and PeerError when no broker answers."""
        async with self._lookups:
            link = await self._service_link()
            walk = LookupWalk(link.url, uses_tls=self._credentials.uses_tls)
            step: Ask | Owner = walk.first
            while isinstance(step, Ask):
                if step is not walk.first:
                    link = await self._links.get(Owner(step.url))
                ask = pb.CommandLookupTopic(topic=topic.full, authoritative=step.authoritative)
                command = pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookupTopic=ask)
                answer = await self.request(link, command, "lookupTopic", LOOKUP_REQUEST_SECONDS)
                step = walk.answered(answer.lookupTopicResponse)
            return step

    async def link_of(self, topic: TopicName) -> tuple[Owner, PeerLink]:
        """Returns the owner of a topic and a link to this owner. Raises PulsarError for a refusal, and PeerError when a
        broker cannot be reached."""
        owner = await self.lookup(topic)
        return owner, await self._links.get(owner)

    async def request(
        self, link: PeerLink, command: pb.BaseCommand, field: str, deadline_seconds: float = REQUEST_SECONDS
    ) -> pb.BaseCommand:
        """Makes a request on a link and returns the answer; see `PeerLink.request`."""
        return await link.request(command, field, deadline_seconds)

    async def _service_link(self) -> PeerLink:
        """Returns a link to the first of the lookup addresses that answers. Raises PulsarError for a refused login, and
        the PeerError of the last address when no address answers."""
        failure: PeerError = PeerUnreachableError("this broker has no address for lookups yet")
        for url in self._service_urls():
            try:
                return await self._links.get(Owner(url))
            except (PeerUnreachableError, PeerTimeoutError) as error:
                failure = error
        raise failure

    async def _is_trusted(self, url: str) -> bool:
        place = place_of(url)
        if place is not None and place in map(place_of, self._service_urls()):
            return True
        return self._addresses is not None and await self._addresses.is_known(url)

    def own_links(self) -> PeerLinks:
        """Returns connections for one user, who closes them. On connections of its own, a user that is slow or is
        throttled by a broker holds up no other user."""
        return PeerLinks(self._settings, self._credentials, self._is_trusted, OWN_LINK_READ_BYTES)

    # --- for producers and readers -----------------------------------------------------------------------------------

    def forget(self, attachment: Attachment) -> None:
        """Called by a producer or reader that was closed."""
        self._attachments.discard(attachment)

    def unawaited_request_id(self) -> int:
        """Returns the id of a request whose answer nobody waits for."""
        self._unawaited += 1
        return self._unawaited

    def _started(self, attachment: Kind) -> Kind:
        if self._is_closed or len(self._attachments) >= ATTACHMENTS_MAX:
            raise PeerUnreachableError("this broker's client is closed or has too many producers and readers")
        self._attachments.add(attachment)
        attachment.start()
        return attachment
