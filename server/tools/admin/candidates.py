"""Finds the words that may stand at the end of an unfinished command line.

Names of live objects are asked of the server, within a second; when it does not answer, there are none.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.server.tools.admin.command_table import (
    NAMESPACE,
    NON_PERSISTENT_TOPIC,
    PERSISTENT_TOPIC,
    TOPIC,
    Argument,
    Command,
    Option,
)
from magnetar.server.tools.admin.groups import GROUPS, commands_of, find_command, find_group
from magnetar.server.tools.admin.name_rules import parse_namespace, parse_topic
from magnetar.server.tools.admin.running import shared_reader
from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError

if TYPE_CHECKING:
    from magnetar.server.tools.connection.http_client import AdminHttp

ANSWER_SECONDS = 1
CANDIDATES_MAX = 500
"""More names help nobody; a person types another letter."""
_TOPICS = (TOPIC, PERSISTENT_TOPIC, NON_PERSISTENT_TOPIC)


def candidates(words: Sequence[str]) -> list[str]:
    """Returns the words that may stand in place of the last of `words`, which may be empty. Names with characters that
    a terminal would obey, or with line ends, are left out."""
    *before, last = words or [""]
    shared = shared_reader()
    at = 0
    while at < len(before) and (after := shared.read(before, at)) > at:
        at = after
    rest = before[at:]
    if not rest:
        return _matching([group.name for group in GROUPS if not group.hidden], last)
    group = find_group(rest[0])
    if group is None:
        return []
    if len(rest) == 1:
        return _matching([command.name for command in commands_of(group) if not command.hidden], last)
    command = find_command(group, rest[1])
    if command is None:
        return []
    options = {name: option for option in command.options for name in option.names.split()}
    if last.startswith("-"):
        return _matching([name for name in options if not options[name].hidden], last)
    flags = {key: "true" if value is True else str(value) for key, value in shared.values.items() if key != "form"}
    return [word for word in _values(command, options, rest[2:], last, flags) if word.isprintable()][:CANDIDATES_MAX]


def _values(
    command: Command, options: dict[str, Option], typed: Sequence[str], last: str, flags: dict[str, str]
) -> list[str]:
    awaiting = options.get(typed[-1]) if typed else None
    places = _positionals(options, typed)
    try:
        if awaiting is not None and awaiting.takes_value:
            if awaiting.choices:
                return _matching(awaiting.choices, last)
            if awaiting.key in ("subscription", "sub", "subscription-name") and places:
                return _matching(_subscriptions(_http(flags), places[0]), last)
            return []
        if len(places) < len(command.arguments):
            return _of_argument(command.arguments[len(places)], places, last, flags)
    except (AdminCallError, ConnectionSettingsError, ValueError, KeyError, TypeError):
        return []
    return []


def _positionals(options: dict[str, Option], typed: Sequence[str]) -> list[str]:
    places = []
    skip = False
    for word in typed:
        if skip:
            skip = False
        elif word in options:
            skip = options[word].takes_value
        elif not word.startswith("-"):
            places.append(word)
    return places


def _of_argument(argument: Argument, places: Sequence[str], last: str, flags: dict[str, str]) -> list[str]:
    if argument.key in ("name", "names"):
        from magnetar.server.tools.connection.contexts import read_contexts

        return _matching(list(read_contexts(os.environ).by_name), last)
    http = _http(flags)
    if argument.kind == NAMESPACE:
        return _matching(_namespaces(http, last), last)
    if argument.kind in _TOPICS:
        return _matching(_topics(http, last), last)
    if argument.key == "subscription" and places:
        return _matching(_subscriptions(http, places[0]), last)
    listed = {"tenant": "/admin/v2/tenants", "cluster": "/admin/v2/clusters", "group": "/admin/v2/resourcegroups"}
    return _matching(http.get(listed[argument.key]).json(), last) if argument.key in listed else []


def _http(flags: dict[str, str]) -> "AdminHttp":
    from magnetar.server.tools.connection.http_client import AdminHttp
    from magnetar.server.tools.connection.settings import load_settings

    return AdminHttp(load_settings(flags, os.environ)._replace(request_timeout_seconds=ANSWER_SECONDS))


def _namespaces(http: "AdminHttp", typed: str) -> list[str]:
    """Returns the tenants, with a slash, until one is typed; then its namespaces."""
    tenant, slash, _ = typed.partition("/")
    if not slash:
        return [f"{name}/" for name in http.get("/admin/v2/tenants").json()]
    return list(http.get(f"/admin/v2/namespaces/{tenant}").json())


def _topics(http: "AdminHttp", typed: str) -> list[str]:
    domain, scheme, rest = typed.rpartition("://")
    head = domain + scheme
    if rest.count("/") < 2:
        names = [f"{name.rstrip('/')}/" for name in _namespaces(http, rest)]
        return [head + name for name in names] + (
            [] if scheme or "/" in rest else _topics_of(http, "public/default", "")
        )
    namespace = rest.rpartition("/")[0]
    return _topics_of(http, namespace, f"{head}{namespace}/", domain or "persistent")


def _topics_of(http: "AdminHttp", text: str, head: str, domain: str = "persistent") -> list[str]:
    """Returns topics of a namespace, each as `head` and its local name; partitions are left out for their topic."""
    namespace = parse_namespace(text)
    path = f"{namespace.root}/{domain}/{namespace.text}"
    names = [*http.get(path).json(), *http.get(path + "/partitioned").json()]
    topics = [parse_topic(name) for name in names]
    return list(dict.fromkeys(head + topic.local for topic in topics if topic.partition_index < 0))


def _subscriptions(http: "AdminHttp", topic: str) -> list[str]:
    return list(http.get(parse_topic(topic).path + "/subscriptions").json())


def _matching(words: Sequence[str], typed: str) -> list[str]:
    return sorted(word for word in words if word.startswith(typed))
