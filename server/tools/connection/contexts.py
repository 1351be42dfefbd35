"""The file of contexts: named settings of connections, one of which is the current one.

The file is `magnetar/contexts.json` in $XDG_CONFIG_HOME, else in ~/.config: `{"current": NAME, "contexts": {NAME: {KEY:
VALUE}}}` with the keys of client.conf. Only its owner may read it, because a context may hold a token; a context with
`tokenFile` holds none.
"""

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError

FILE_BYTES_MAX = 1 << 20
CONTEXT_KEYS = (
    "webServiceUrl",
    "brokerServiceUrl",
    "authPlugin",
    "authParams",
    "tokenFile",
    "tlsTrustCertsFilePath",
    "tlsAllowInsecureConnection",
    "tlsEnableHostnameVerification",
    "tlsCertificateFilePath",
    "tlsKeyFilePath",
    "requestTimeout",
)
"""The settings that a context may hold."""


class Contexts(NamedTuple):
    """What the file holds. `current` is empty when no context is the current one."""

    current: str
    by_name: dict[str, dict[str, str]]


def contexts_path(environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or "~", ".config")
    return os.path.join(os.path.expanduser(base), "magnetar", "contexts.json")


def read_contexts(environment: Mapping[str, str]) -> Contexts:
    """Returns the contexts, none when there is no file. Raises ConnectionSettingsError for a file that cannot be
    read."""
    path = contexts_path(environment)
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        return Contexts("", {})
    except OSError as error:
        raise ConnectionSettingsError(f"{path}: {os.strerror(error.errno or 0)}") from None
    try:
        told = json.loads(content)
        named = {
            str(name): {str(key): str(value) for key, value in settings.items() if key in CONTEXT_KEYS}
            for name, settings in told.get("contexts", {}).items()
        }
        current = str(told.get("current") or "")
    except (ValueError, AttributeError):
        raise ConnectionSettingsError(f"{path} is not a file of contexts; put it right or remove it") from None
    return Contexts(current, named)


def write_contexts(contexts: Contexts, environment: Mapping[str, str]) -> None:
    """Replaces the file as a whole, so that an interruption leaves the old one. Raises ConnectionSettingsError."""
    path = contexts_path(environment)
    text = json.dumps({"current": contexts.current, "contexts": contexts.by_name}, indent=2) + "\n"
    temporary = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise ConnectionSettingsError(f"{path}: {os.strerror(error.errno or 0)}") from None


def context_settings(name: str, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns the name and the settings of the context `name`, or of the current one when `name` is empty. Raises
    ConnectionSettingsError when there is no context of that name."""
    contexts = read_contexts(environment)
    chosen = name or contexts.current
    if not chosen:
        return "", {}
    if chosen not in contexts.by_name:
        known = ", ".join(sorted(contexts.by_name)) or "there are none"
        raise ConnectionSettingsError(
            f"there is no context '{chosen}' in {contexts_path(environment)} (known: {known})"
        )
    return chosen, contexts.by_name[chosen]
