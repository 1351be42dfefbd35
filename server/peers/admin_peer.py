"""Calls of other brokers' admin interface.

A call is addressed to a broker id or to an address, follows redirects with method and body, and shows this broker's
credentials to brokers of the cluster only. Source: PulsarService.getAdminClient.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from magnetar import __version__
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers.peer_addresses import PeerAddresses, place_of
from magnetar.server.peers.peer_credentials import Method, PeerCredentials
from magnetar.server.peers.peer_errors import PeerAnswerError, PeerTimeoutError, PeerUnreachableError
from magnetar.server.peers.redirect_rules import redirect_of

CONNECTIONS_MAX = 256
"""How many connections to peers may be open at the same time. A further call waits, up to its deadline."""
CONNECTIONS_PER_PEER_MAX = 32
IDLE_SECONDS = 30.0
"""The time after which an unused connection is closed."""
CONNECT_SECONDS = 10.0
ANSWER_BYTES_MAX = 128 << 20
"""The longest answer that is accepted, in bytes. The names of a million topics fit in. A longer answer is an error."""
READ_BYTES = 1 << 16


class PeerAnswer(NamedTuple):
    """A peer's answer. The status says whether the peer refused the call."""

    status: int
    headers: Mapping[str, str]
    """The headers, whose names are looked up without regard to case."""
    body: bytes


class AdminPeer:
    """This broker's HTTP client. One object serves the process. All calls are made on the loop's thread."""

    def __init__(self, store: MetadataStore, settings: PeerSettings, credentials: PeerCredentials) -> None:
        self._settings = settings
        self._credentials = credentials
        self.addresses = PeerAddresses(store, settings.cluster_name)
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self,
        method: str,
        url_or_broker: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        deadline_seconds: float | None = None,
    ) -> PeerAnswer:
        """Makes one call, follows redirects, and returns the last broker's answer.

        `url_or_broker` is `http://host:port` or the id of a registered broker; `path` begins with a slash and is
        encoded already. A `body` is JSON unless `headers` say otherwise. `deadline_seconds` is the deadline of the
        whole call, with all redirects; the default is metadataStoreOperationTimeoutSeconds. Raises
        PeerUnreachableError, PeerTimeoutError and PeerAnswerError; after each of them the call may have had its effect.
        """
        seconds = deadline_seconds or float(self._settings.metadata_store_operation_timeout_seconds)
        try:
            async with asyncio.timeout(seconds):
                base = await self._base(url_or_broker)
                url = f"{base.rstrip('/')}{path}{f'?{urlencode(query)}' if query else ''}"
                return await self._call(method, url, body, headers or {})
        except TimeoutError:
            raise PeerTimeoutError(f"{url_or_broker} did not answer within {seconds:g} s") from None

    async def _base(self, url_or_broker: str) -> str:
        """Returns the address to call. With brokerClientTlsEnabled, the address of a broker's plain port is replaced by
        the address of the TLS port: the records of bundle owners have both addresses, and callers need not choose."""
        if "://" not in url_or_broker:
            return await self.web_url(url_or_broker)
        if self._credentials.uses_tls and url_or_broker.startswith("http://"):
            place = place_of(url_or_broker)
            for record in await self.addresses.brokers():
                if record.web_url_tls and place_of(record.web_url) == place:
                    return record.web_url_tls
        return url_or_broker

    async def web_url(self, broker_id: str) -> str:
        """Returns the address of a registered broker's admin interface: the TLS address with brokerClientTlsEnabled,
        otherwise the plain one, or the TLS address of a broker that has no plain one. Raises PeerUnreachableError when
        the broker is not registered or has no such address."""
        record = await self.addresses.broker(broker_id)
        url = record.web_url_tls if self._credentials.uses_tls else record.web_url or record.web_url_tls
        if not url:
            raise PeerUnreachableError(f"broker {broker_id} has no such HTTP port")
        return url

    async def close(self) -> None:
        """Closes all connections; calls in progress fail. A second call has no further effect."""
        self.addresses.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> PeerAnswer:
        followed = 0
        while True:
            answer = await self._exchange(method, url, body, headers)
            target = redirect_of(url, answer.status, answer.headers.get("Location"), followed)
            if target is None:
                return answer
            url, followed = target, followed + 1

    async def _exchange(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> PeerAnswer:
        # Apache's resources refuse every change that is not labelled as JSON (415), even a change without a body.
        sent = {"Accept": "application/json", **({} if method == "GET" else {"Content-Type": "application/json"})}
        sent |= headers
        tls = await self._credentials.tls()
        if self._credentials.method is not Method.NONE and await self.addresses.is_known(url):
            sent |= await self._credentials.headers()
        try:
            async with self._http().request(
                method,
                URL(url, encoded=True),
                data=body,
                headers=sent,
                allow_redirects=False,
                ssl=True if tls is None else tls,
            ) as answer:
                return PeerAnswer(answer.status, answer.headers, await _content(answer, url))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise PeerUnreachableError(f"{URL(url, encoded=True).origin()} does not answer: {error}") from error

    def _http(self) -> aiohttp.ClientSession:
        """Returns the HTTP session, which is made at the first call."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX, limit_per_host=CONNECTIONS_PER_PEER_MAX, keepalive_timeout=IDLE_SECONDS
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                headers={"User-Agent": f"Magnetar/{__version__}"},
            )
        return self._session


async def _content(answer: aiohttp.ClientResponse, url: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_chunked(READ_BYTES):
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            answer.close()
            raise PeerAnswerError(f"{answer.url.origin()} answers with more than {ANSWER_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)
