"""The connections to peers, one for each address. A caller that needs a broker gets the open connection, or waits until
the connection is opened."""

import asyncio
from collections.abc import Awaitable, Callable

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers.lookup_walk_rules import Owner
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.peers.peer_errors import PeerUnreachableError
from magnetar.server.peers.peer_link import LinkState, PeerLink, open_link
from pulsar_proto.wire.framing import FRAME_PADDING, OWN_READ_BYTES

CONNECT_SECONDS = 10.0
"""The deadline of a connection and its login."""
LINKS_MAX = 1_024
"""How many peers may be connected at the same time. A connection to a further peer is refused with
PeerUnreachableError."""


class PeerLinks:
    """All connections of one client. All calls are made on the event loop's thread."""

    def __init__(
        self,
        settings: PeerSettings,
        credentials: PeerCredentials,
        is_trusted: Callable[[str], Awaitable[bool]],
        read_bytes: int = OWN_READ_BYTES,
    ) -> None:
        """`is_trusted` returns whether this broker's credentials may be shown at an address. The commands in
        `read_bytes` are handed over in one turn of the event loop."""
        self._credentials = credentials
        self._is_trusted = is_trusted
        self._frame_bytes_max = settings.max_message_size + FRAME_PADDING
        self._scratch = bytearray(read_bytes)
        self._links: dict[Owner, PeerLink] = {}
        self._opening: dict[Owner, asyncio.Task[PeerLink]] = {}
        self._is_closed = False

    async def get(self, owner: Owner) -> PeerLink:
        """Returns a link that is ready. Raises PeerUnreachableError when the connection fails, PeerTimeoutError when
        the peer does not answer in time, and PulsarError for a refused login. The cancellation of one caller does not
        disturb others that wait for the same link."""
        link = self._links.get(owner)
        if link is not None and link.state is LinkState.READY:
            return link
        task = self._opening.get(owner)
        if task is None:
            if self._is_closed:
                raise PeerUnreachableError("this broker's client is closed")
            if len(self._links) + len(self._opening) >= LINKS_MAX:
                raise PeerUnreachableError(f"{LINKS_MAX} peers are connected already")
            task = self._opening[owner] = asyncio.get_running_loop().create_task(self._open(owner))
            task.add_done_callback(lambda ended: self._opened(owner, ended))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # the client was closed
                raise PeerUnreachableError("this broker's client is closed") from None
            raise

    async def _open(self, owner: Owner) -> PeerLink:
        link = await open_link(
            owner.url,
            self._credentials,
            shows_credentials=await self._is_trusted(owner.url),
            proxy_to=owner.proxy_to,
            scratch=self._scratch,
            frame_bytes_max=self._frame_bytes_max,
            deadline_seconds=CONNECT_SECONDS,
        )
        if link.state is LinkState.READY:
            self._links[owner] = link
            link.on_closed = lambda closed: self._closed(owner, closed)
        return link

    def _opened(self, owner: Owner, task: "asyncio.Task[PeerLink]") -> None:
        self._opening.pop(owner, None)
        if not task.cancelled():
            task.exception()  # marks the error as seen; the callers that still wait get it

    def _closed(self, owner: Owner, link: PeerLink) -> None:
        if self._links.get(owner) is link:
            del self._links[owner]

    async def close(self) -> None:
        """Closes all links. A second call has no further effect."""
        self._is_closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for link in list(self._links.values()):
            link.close()
