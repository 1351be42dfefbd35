"""Decides whether an HTTP redirect of a peer is followed, and to which URL.

Source: Java's admin client follows 307 and 308 with method and body (AsyncHttpConnector, maxRedirects 5).
"""

from urllib.parse import urljoin, urlsplit

from magnetar.server.peers.peer_errors import PeerAnswerError

REDIRECTS_MAX = 5
"""How many redirects of one call are followed. One more is an error, because it means that the brokers disagree about
an owner."""
FOLLOWED = frozenset({301, 302, 307, 308})
"""Statuses whose Location is called with the same method and body."""
DEFAULT_PORTS = {"http": 80, "https": 443}


def redirect_of(url: str, status: int, location: str | None, followed: int) -> str | None:
    """Returns the URL that an answer of `url` leads to, or None when the answer is not a redirect. `followed` is the
    number of redirects that the call has followed already. Raises PeerAnswerError for a redirect that must not be
    followed."""
    if status not in FOLLOWED or not location:
        return None
    if followed >= REDIRECTS_MAX:
        raise PeerAnswerError(f"more than {REDIRECTS_MAX} redirects, the last one from {origin_of(url)}")
    target = urljoin(url, location)
    scheme = urlsplit(target).scheme
    if origin_of(target) is None:
        raise PeerAnswerError(f"{origin_of(url)} redirects to an address that is no HTTP address")
    if scheme == "http" and urlsplit(url).scheme == "https":
        raise PeerAnswerError(f"{origin_of(url)} redirects from https to http")
    return target


def origin_of(url: str) -> str | None:
    """Returns `scheme://host:port` of an HTTP address, always with the port; None for any other text."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not host or parts.username is not None:
        return None
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port or DEFAULT_PORTS[parts.scheme]}"
