"""Decides whether an HTTP redirect is followed.

A broker answers a call for a topic of another broker with 307. Java's admin client follows up to five of these, with
the method, the body and the credentials, whatever host they lead to (AsyncHttpConnector over async-http-client): the
other brokers of a cluster are other hosts. The same is done here, because the server that redirects was given the
credentials already. What is refused is a redirect that would show them in clear text after an encrypted call.
"""

from urllib.parse import urljoin, urlsplit

from magnetar.server.tools.connection.connection_errors import AdminCallError

REDIRECTS_MAX = 5
SAME_CALL = frozenset({301, 302, 307, 308})


def redirect_target(url: str, status: int, location: str | None, followed: int) -> str | None:
    """Returns the URL of the next call, or None when the answer is no redirect. `followed` counts the redirects of this
    call so far. Raises AdminCallError for a redirect that must not be followed."""
    if status not in SAME_CALL or not location:
        return None
    if followed >= REDIRECTS_MAX:
        raise AdminCallError(f"more than {REDIRECTS_MAX} redirects: the brokers disagree about the owner", status)
    target = urljoin(url, location)
    try:
        parts = urlsplit(target)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise AdminCallError("the server redirects to an address that is no HTTP address", status)
    if urlsplit(url).scheme == "https" and parts.scheme == "http":
        raise AdminCallError("the server redirects from https to http, which would show the credentials", status)
    return target
