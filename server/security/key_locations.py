"""Reads keys and password files from the locations that the configuration names.

A location is `data:[type][;base64],…`, `file:` with a path, a path that exists, `env:NAME` for an environment variable
that holds one of the other forms (Apache's broker does not know `env:`), or the content itself in base64.

Sources: AuthTokenUtils.readKeyFromUrl, AuthenticationProviderBasic.readData.
"""

import base64
import binascii
import os
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

from magnetar.server.security.security_errors import SecurityConfigError

CONTENT_BYTES_MAX = 1 << 20
"""The largest key or password file that is read; a larger file is refused."""


def read_content(location: str, what: str) -> bytes:
    """Returns the bytes at a location. `what` names the key of the configuration in errors, as in "tokenSecretKey".
    Raises SecurityConfigError."""
    if location.startswith("env:"):
        name = location.removeprefix("env:")
        value = os.environ.get(name)
        if not value:
            raise SecurityConfigError(f"{what}: the environment variable {name} is not set")
        return read_content(value, f"{what} (environment variable {name})")
    if location.startswith("data:"):
        content = _data_url(location, what)
    elif location.startswith("file:"):
        path = unquote(location.removeprefix("file:"))
        content = _file(Path(path[path.index("/", 2) :] if path.startswith("//") and "/" in path[2:] else path), what)
    elif _is_path(location):
        content = _file(Path(location), what)
    else:
        content = _base64(location, what)
    if not content:
        raise SecurityConfigError(f"{what}: there is nothing in it")
    return content


def _is_path(location: str) -> bool:
    try:
        return Path(location).exists()
    except (OSError, ValueError):
        return False


def _file(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(CONTENT_BYTES_MAX + 1)
    except OSError as error:
        raise SecurityConfigError(f"{what}: {path} cannot be read: {error.strerror or error}") from None
    if len(content) > CONTENT_BYTES_MAX:
        raise SecurityConfigError(f"{what}: {path} is larger than {CONTENT_BYTES_MAX} bytes")
    return content


def _data_url(location: str, what: str) -> bytes:
    head, comma, body = location.removeprefix("data:").partition(",")
    if not comma:
        raise SecurityConfigError(f"{what}: a data: location needs a comma before its content")
    if head.endswith(";base64"):
        return _base64(unquote(body), what)
    return unquote_to_bytes(body)


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_" if set(text) & {"-", "_"} else None, validate=True)
    except (binascii.Error, ValueError):
        raise SecurityConfigError(f"{what}: neither an existing file nor base64") from None
