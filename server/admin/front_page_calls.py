"""The page at `/` of the web port. A browser gets the console. Everybody else is told which server answers here, where
its clients connect, and what to try next: a program that asks for JSON as JSON, and others as plain text. Apache's
broker has nothing at this path.
"""

import orjson

from magnetar import __version__
from magnetar.server.admin.console_calls import FILES
from magnetar.server.broker.broker import Broker
from magnetar.server.console.static_files import INDEX
from magnetar.server.web.calls import Answer, Call, Route, Text
from magnetar.server.web.needs import EVERYBODY
from magnetar.server.web.places import Place

PRODUCT = f"Magnetar {__version__}"
PATHS = {
    "/metrics/": "metrics for Prometheus",
    "/admin/v2/clusters": "the admin REST API",
    "/admin/v2/brokers/ready": "whether clients can produce and consume",
}
COMMANDS = {
    "magnetar admin topics list public/default": "what there is; magnetar admin --help lists all commands",
    "magnetar produce greetings -m hello": "a first message",
    "magnetar why TOPIC SUBSCRIPTION": "why a subscription gets nothing",
}
DOCS = "README.md and docs/ of the source tree: ADMIN.md, CONFIGURATION.md, SERVICE.md, TROUBLESHOOTING.md and more"

Content = dict[str, str | dict[str, str]]
"""The content of the page: title -> a text, or a table of texts by what they are about."""


def content_of(broker: Broker) -> Content:
    """Returns the content of the page. A server with authentication tells its version and where the docs are, and
    nothing else, because nobody has logged in for this page."""
    if broker.security is not None:
        return {"server": PRODUCT, "docs": DOCS}
    urls = broker.addresses.urls
    shown = {"clients": urls.broker, "clients with TLS": urls.broker_tls, "HTTP": urls.web, "HTTPS": urls.web_tls}
    return {
        "server": PRODUCT,
        "cluster": broker.cluster,
        "addresses": {name: url for name, url in shown.items() if url},
        "paths": PATHS,
        "commands": COMMANDS,
        "docs": DOCS,
    }


def as_text(content: Content) -> str:
    lines = []
    for title, text in content.items():
        if isinstance(text, str):
            lines.append(f"{title}: {text}")
            continue
        width = max(map(len, text))
        lines += [f"{title}:", *(f"  {name:<{width}}  {each}" for name, each in text.items())]
    return "\n".join(lines) + "\n"


async def front_page(call: Call) -> Answer:
    """Answers everybody, because the page tells strangers no more than `/admin/v2/brokers/version` does."""
    accept = call.headers.get("Accept", "").lower()
    if "text/html" in accept:
        return await FILES.answer(call, INDEX, vary="Accept, Accept-Encoding")
    content = content_of(call.broker)
    if "application/json" in accept:
        body, kind = orjson.dumps(content), "application/json"
    else:
        body, kind = as_text(content).encode(), "text/plain; charset=utf-8"
    return Text(body, kind, {"Vary": "Accept"})


ROUTES = (Route("GET", "/", front_page, EVERYBODY, Place.ASKED_BROKER),)
