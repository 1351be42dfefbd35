"""Rules for the paths, URLs and storage options of jobs: which URLs there are, and how each library calls an option.

Users name storage options as Delta's library does, such as `aws_access_key_id`. What the options leave out comes from
the environment, where each library looks for logins itself. Only endpoints and the region are looked up here, because
the libraries do not agree on the names of their variables, and because an endpoint says whether HTTP is allowed.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOCK_FILE = "_magnetar.lock"
OBJECT_SCHEMES = ("s3", "s3a", "gs", "abfs", "abfss")
SCHEMES = ("file", "hdfs", *OBJECT_SCHEMES)
ENDPOINT, REGION, ALLOW_HTTP = "aws_endpoint", "aws_region", "allow_http"
AZURE_ENDPOINT = "azure_storage_endpoint"
FROM_ENVIRONMENT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        ENDPOINT: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        REGION: ("AWS_REGION", "AWS_DEFAULT_REGION"),
    },
    "abfs": {AZURE_ENDPOINT: ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")},
}
ANY_REGION = "us-east-1"
"""The region of an S3 service that is not Amazon's, when nobody names one: such a service has no regions."""
SAME = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "region": REGION,
    "endpoint": ENDPOINT,
    "endpoint_url": ENDPOINT,
    "aws_endpoint_url": ENDPOINT,
    "aws_allow_http": ALLOW_HTTP,
}
"""Other names of options, which mean the same."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SIGNED = re.compile(r"((?:sig|signature|token|credential)=)[^&\s\"')]+", re.IGNORECASE)


class StorageFault(ValueError):
    """A path, a URL or a storage option is wrong, or the store behind a URL answers with an error. The text is a
    sentence for people."""


class FolderInUse(ValueError):
    """Another run works in the folder."""


def is_local(path: str) -> bool:
    """Returns whether `path` is a path, which may have a colon in it, or a `file:` URL."""
    return "://" not in path or path.startswith("file:")


def local_folder(path: str) -> Path:
    """Returns the folder of a path or `file:` URL. Raises StorageFault for another URL."""
    if not is_local(path):
        raise StorageFault(f"{path}: a local or mounted folder is needed here")
    return Path(unquote(urlsplit(path).path) if path.startswith("file:") else path).absolute()


def scheme_of(url: str) -> str:
    """Returns the scheme of a path or URL, which is `file` for a path. Raises StorageFault for an unknown scheme."""
    scheme = "file" if is_local(url) else url.partition("://")[0]
    if scheme not in SCHEMES:
        raise StorageFault(f"{url}: expected a path, or one of {', '.join(f'{each}://' for each in SCHEMES[1:])}")
    return scheme


def parsed_options(pairs: Sequence[str]) -> dict[str, str]:
    """Returns the options of KEY=VALUE pairs. Raises StorageFault for a pair without a key or an equals sign; the
    sentence does not repeat the value, because it may be a password."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise StorageFault("--storage-option: expected KEY=VALUE")
        name = key.strip().lower()
        options[SAME.get(name, name)] = value
    return options


def completed_options(url: str, options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the options with what the environment says about the endpoint, and S3's region. An endpoint that begins
    with `http:` allows HTTP, which the libraries refuse unless they are told."""
    found = dict(options)
    kind = next((kind for kind in FROM_ENVIRONMENT if scheme_of(url).startswith(kind)), "")
    for name, variables in FROM_ENVIRONMENT.get(kind, {}).items():
        values = [environment[each] for each in variables if environment.get(each)]
        if name not in found and values:
            found[name] = values[0]
    if kind == "s3" and ENDPOINT in found:
        found.setdefault(REGION, ANY_REGION)
    if any(found.get(name, "").startswith("http:") for name in (ENDPOINT, AZURE_ENDPOINT)):
        found.setdefault(ALLOW_HTTP, "true")
    return found


def sentence_of(text: str) -> str:
    """Returns what an error of a store says, in one line. Colours, the answer's XML but for its message, Java's
    stack, and signatures and tokens in URLs are left out."""
    message = re.search(r"<Message>(.*?)</Message>", text, re.DOTALL)
    text = _COLOUR.sub("", text).partition("Debug source:")[0].partition(": <?xml")[0].partition("\n\tat ")[0]
    line = " ".join(text.replace("↳", " ").split())
    return _SIGNED.sub(r"\1…", f"{line} ({message[1]})" if message else line)
