"""Makes the address to which a call is redirected. This module does no I/O: `owner_redirects.py` finds the broker.

The address is that of the request, but at the other broker: the path and the parameters stay as they came. Source:
PulsarWebResource (validateTopicOwnershipAsync, validateBundleOwnershipAsync), which replaces host, port and the
parameter `authoritative`."""

from collections.abc import Collection
from urllib.parse import unquote_plus

from magnetar.server.network.ports import Urls

AUTHORITATIVE = "authoritative"
"""The parameter by which a broker tells the next broker whether it may take a bundle that has no owner, without asking
the leader."""

DESTINATION = "destinationBroker"
"""The parameter of an unload that names the broker to which the bundle goes. Only the leader reads it."""


def web_url_of(urls: Urls, *, is_https: bool) -> str:
    """Returns the web address of a broker for a client that came over HTTP or HTTPS. If the broker lacks a port of the
    client's kind, returns the address of the port that it has; "" if it has neither."""
    return (urls.web_tls or urls.web) if is_https else (urls.web or urls.web_tls)


def location(target: str, web_url: str, *, authoritative: bool | None = None, dropped: Collection[str] = ()) -> str:
    """Returns the address of the same call at another broker. `target` is the path and query of the request, as the
    client sent them. The query parameter `authoritative` gets the given value, unless the value is None; parameters
    in `dropped` are left out."""
    path, _, query = target.partition("?")
    replaced = {*dropped} if authoritative is None else {AUTHORITATIVE, *dropped}
    kept = [pair for pair in query.split("&") if pair and unquote_plus(pair.partition("=")[0]) not in replaced]
    if authoritative is not None:
        kept.append(f"{AUTHORITATIVE}={str(authoritative).lower()}")
    return f"{web_url.rstrip('/')}{path}{'?' if kept else ''}{'&'.join(kept)}"
