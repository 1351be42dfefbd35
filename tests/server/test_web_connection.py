"""What a connection of the web port makes of bytes that are not all sound requests."""

import asyncio
from pathlib import Path

from tests.server.web_scene import running


async def test_a_request_is_answered_though_what_follows_it_is_none(tmp_path: Path) -> None:
    """Node sends the body of a DELETE without its length."""
    async with running(tmp_path) as web:
        path = "/admin/v2/persistent/public/default/gone"
        assert (await web.get(path, "PUT"))[0] == 204
        reader, writer = await asyncio.open_connection("127.0.0.1", int(web.server.web_url.rpartition(":")[2]))
        writer.write(f"DELETE {path} HTTP/1.1\r\nHost: here\r\nConnection: keep-alive\r\n\r\n{{}}".encode())
        said = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        answers = [line.split()[1] for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.")]
        assert answers == [b"204", b"400"]
        assert (await web.get(f"{path}/stats"))[0] == 404
