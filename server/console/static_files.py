"""Serves the files of the console: reads each file on its first request, compresses it once, and keeps both.

A browser asks for each file again with the file's ETag, and gets 304 while the file is the same. So a new version of
the server is seen at the next load of a page.
"""

import asyncio
import gzip
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.server.web.calls import Answer, Call, Refusal, Status, Text
from magnetar.server.web.content_encodings import takes_gzip

FOLDER: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"

CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""The kinds of files that are served. Other files in the folder, such as the list of vendored libraries, are not."""

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""A browser that obeys this runs no script and loads nothing that did not come from this server, even if a message or
a name could add markup to a page."""

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

ETAG_DIGITS: Final = 32


class StaticFile(NamedTuple):
    """One file as it is sent."""

    content_type: str
    digest: str
    body: bytes
    compressed: bytes


def read_file(path: Path) -> StaticFile:
    """Reads and compresses a file. Raises OSError when the file cannot be read."""
    body = path.read_bytes()
    digest = sha256(body).hexdigest()[:ETAG_DIGITS]
    return StaticFile(CONTENT_TYPES[path.suffix], digest, body, gzip.compress(body, mtime=0))


def names_of(folder: Path) -> frozenset[str]:
    """Returns the names of the files that are served, relative to the folder."""
    files = (path for path in folder.rglob("*") if path.suffix in CONTENT_TYPES and path.is_file())
    return frozenset(path.relative_to(folder).as_posix() for path in files)


class StaticFiles:
    """The files of a folder. Only names that were in the folder at the first request are served, so a path of a
    request never becomes a path of the file system."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._names: frozenset[str] | None = None
        self._files: dict[str, StaticFile] = {}

    async def answer(self, call: Call, name: str, *, vary: str = "Accept-Encoding") -> Answer:
        """Returns a file as the answer to a call: compressed if the client takes gzip, or 304 if the client has the
        file already. Raises Refusal 404 when there is no such file."""
        file = await self._file(name)
        is_compressed = takes_gzip(call.headers.get("Accept-Encoding", ""))
        etag = f'"{file.digest}-gzip"' if is_compressed else f'"{file.digest}"'
        headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache", "ETag": etag, "Vary": vary}
        if etag in (each.strip() for each in call.headers.get("If-None-Match", "").split(",")):
            return Status(304, headers=headers)
        if is_compressed:
            return Text(file.compressed, file.content_type, {**headers, "Content-Encoding": "gzip"})
        return Text(file.body, file.content_type, headers)

    async def _file(self, name: str) -> StaticFile:
        if self._names is None:
            self._names = await asyncio.to_thread(names_of, self._folder)
        if name not in self._names:
            raise Refusal(404, f"The console has no file {name}")
        file = self._files.get(name)
        if file is None:
            file = await asyncio.to_thread(read_file, self._folder / name)
            self._files[name] = file
        return file
