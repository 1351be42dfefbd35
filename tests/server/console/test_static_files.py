"""The files of the console are served compressed, with strong ETags and the headers that a browser obeys."""

import asyncio
import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from magnetar.server.console.static_files import CONTENT_TYPES, FOLDER, INDEX, StaticFiles, names_of, read_file
from magnetar.server.web.calls import Refusal
from tests.server.web.web_scene import Web, running

PLAIN = {"Accept-Encoding": "identity"}
GZIP = {"Accept-Encoding": "gzip"}
IMPORT = re.compile(r'from "(\.[^"]+)"|src="([^"]+)"|href="([^"]+)"')


async def fetched(web: Web, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    """Returns status, headers and the body as it was sent."""
    url = f"{web.server.web_url}/{path}"
    async with web.session.get(url, headers=headers, skip_auto_headers=["Accept-Encoding"]) as response:
        return response.status, response.headers, await response.read()


async def test_every_file_is_served_with_its_type_and_the_headers_of_security(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for name in sorted(names_of(FOLDER) - {INDEX}):
            status, headers, body = await fetched(web, f"console/{name}", **PLAIN)
            assert (status, body) == (200, (FOLDER / name).read_bytes()), name
            assert headers["Content-Type"] == CONTENT_TYPES[Path(name).suffix]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            policy = headers["Content-Security-Policy"].split("; ")
            assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
            assert "unsafe" not in headers["Content-Security-Policy"]


async def test_a_file_is_sent_again_only_when_it_is_another(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        _, first, _ = await fetched(web, "console/main.js", **PLAIN)
        _, packed, _ = await fetched(web, "console/main.js", **GZIP)
        assert packed["Content-Encoding"] == "gzip"
        assert len({first["ETag"], packed["ETag"]}) == 2, "a strong ETag names bytes, and these differ"
        for encoding, known in ((PLAIN, first), (GZIP, packed)):
            status, headers, body = await fetched(
                web, "console/main.js", **encoding, **{"If-None-Match": known["ETag"]}
            )
            assert (status, headers["ETag"], body) == (304, known["ETag"], b"")
            assert headers["Content-Security-Policy"] == known["Content-Security-Policy"]
        status, _, _ = await fetched(web, "console/main.js", **GZIP, **{"If-None-Match": '"other", "another"'})
        assert status == 200


@pytest.mark.parametrize(
    "path",
    [
        "console/nothing.js",
        "console/..%2fstatic_files.py",
        "console/%2e%2e/static_files.py",
        "console/vendor/README.md",
    ],
)
async def test_nothing_but_the_files_of_the_console_is_served(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as web:
        status, _, body = await fetched(web, path)
        assert status == 404
        assert b"def " not in body


async def test_a_file_is_read_and_compressed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def counted(path: Path) -> object:
        reads.append(path)
        return read_file(path)

    monkeypatch.setattr("magnetar.server.console.static_files.read_file", counted)
    async with running(tmp_path) as web:
        await fetched(web, "console/icon.svg", **GZIP)
        before = len(reads)
        answers = await asyncio.gather(*(fetched(web, "console/icon.svg", **GZIP) for _ in range(5)))
        assert len(reads) == before
        assert len({body for _, _, body in answers}) == 1


def test_a_compressed_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "page.css").write_text("a { color: red }")
    file = read_file(tmp_path / "page.css")
    assert gzip.decompress(file.compressed) == file.body == b"a { color: red }"


async def test_a_file_that_comes_later_is_not_served(tmp_path: Path) -> None:
    """The names are fixed at the first request, so that a request never asks the file system for a name of its own."""
    files = StaticFiles(tmp_path)
    with pytest.raises(Refusal, match="The console has no file"):
        await files._file("late.js")
    (tmp_path / "late.js").write_text("")
    with pytest.raises(Refusal, match="The console has no file"):
        await files._file("late.js")


def test_files_name_only_files_that_are_there() -> None:
    for name in names_of(FOLDER):
        if "vendor" in name or Path(name).suffix not in (".js", ".html"):
            continue
        base = FOLDER.parent if name == INDEX else (FOLDER / name).parent
        for found in IMPORT.findall((FOLDER / name).read_text()):
            target = "".join(found)
            if name == INDEX:
                target = target.replace("console/", "static/")
            elif not target.startswith("."):
                continue
            assert (base / target).resolve().is_file(), f"{name}: {target}"
