"""The rules for paths, as bytes in UTF-8, without I/O. Source: PathUtils.validatePath and PrepRequestProcessor."""

import re

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server.protocol import RequestError

ROOT = b"/"
SPECIAL_PATHS = frozenset((b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config"))
"""Records that nobody can delete (DataTree.isSpecialPath)."""

_PLAIN = re.compile(rb"(?:/[ -.0-~]+)+")
"""Matches the paths that consist of printable ASCII characters only, as nearly all paths do."""
_DOTS = re.compile(r"/\.{1,2}(?:/|$)")
_INVALID = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
"""Matches the characters that Java refuses. Characters beyond U+FFFF are among them, because Java sees such a character
as two surrogates."""


def check_path(path: bytes) -> None:
    """Checks a path. Raises RequestError (BadArguments) when no record may have this path."""
    if _PLAIN.fullmatch(path) and b"/." not in path:
        return
    if path == ROOT:
        return
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise RequestError(ErrorCode.BAD_ARGUMENTS) from None
    if not text.startswith("/") or text.endswith("/") or "//" in text or _DOTS.search(text) or _INVALID.search(text):
        raise RequestError(ErrorCode.BAD_ARGUMENTS)


def parent_to_create_in(path: bytes) -> bytes:
    """Returns the parent of a record that is to be created. Raises RequestError for a path without a slash or with a
    zero character; other faults are found later (PrepRequestProcessor.validatePathForCreate)."""
    slash = path.rfind(b"/")
    if slash < 0 or b"\0" in path:
        raise RequestError(ErrorCode.BAD_ARGUMENTS)
    return path[:slash] or ROOT


def parent_to_delete_from(path: bytes) -> bytes:
    """Returns the parent of a record that is to be deleted. Raises RequestError for a path that nobody can delete
    (PrepRequestProcessor.getParentPathAndValidate)."""
    if path in SPECIAL_PATHS:
        raise RequestError(ErrorCode.BAD_ARGUMENTS)
    return parent_to_create_in(path)
