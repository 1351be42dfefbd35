"""The line that a broker prints on stdout when clients can use it, for people or as JSON for programs."""

import json
import os
from collections.abc import Mapping

from magnetar import __version__
from magnetar.server.network.ports import Urls
from magnetar.server.process.process_age import process_age_seconds


def ready_json(urls: Urls, **more: str) -> str:
    """Returns the addresses of all ports, the process id and the version as one JSON object. `more` are further
    members."""
    tls = {"brokerServiceUrlTls": urls.broker_tls, "webServiceUrlTls": urls.web_tls}
    named: Mapping[str, str | int] = {
        "brokerServiceUrl": urls.broker,
        "webServiceUrl": urls.web,
        **{name: url for name, url in tls.items() if url},
        **more,
        "pid": os.getpid(),
        "version": __version__,
    }
    return json.dumps(named)


def ready_sentence(urls: Urls, what: str, place: str) -> str:
    """Returns the line for people. `place` names where the data are."""
    listed = " ".join(url for url in urls if url)
    return f"{what} is ready: {listed} {place} ({process_age_seconds():.1f} s, pid {os.getpid()})"
