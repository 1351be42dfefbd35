"""Makes urllib follow redirects as Pulsar's admin clients do: with the method, the body and the headers of the call.

A broker of a cluster answers a call about a topic of another broker with 307. Python's own handler follows it only for
GET and HEAD.
"""

import urllib.request
from email.message import Message
from typing import IO

KEPT = (307, 308)
"""The status codes that ask for the same call at another place."""


class FollowRedirects(urllib.request.HTTPRedirectHandler):
    """Repeats the call at the place that the answer names, ten times at most."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if code not in KEPT:
            return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        return urllib.request.Request(newurl, req.data, dict(req.header_items()), method=req.get_method())


def install() -> None:
    """Makes `urllib.request.urlopen` of this process follow redirects so."""
    urllib.request.install_opener(urllib.request.build_opener(FollowRedirects))
