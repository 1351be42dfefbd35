"""The page at `/` is the console for browsers. It tells others which server answers, and tells little where callers
have to log in."""

import json
from pathlib import Path

from magnetar import __version__
from magnetar.server.admin.front_page_calls import COMMANDS, as_text
from magnetar.server.console.static_files import FOLDER, INDEX
from tests.server.web.web_scene import Web, running

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def asked(web: Web, accept: str | None = None) -> tuple[str, str]:
    """Returns the content type and the body of the page."""
    headers = {} if accept is None else {"Accept": accept}
    async with web.session.get(f"{web.server.web_url}/", headers=headers) as response:
        assert (response.status, response.headers["Vary"].split(",")[0]) == (200, "Accept")
        return response.content_type, await response.text()


async def test_the_page_has_the_form_that_its_reader_asks_for(tmp_path: Path) -> None:
    async with running(tmp_path, clusterName="harbour") as web:
        kind, text = await asked(web)
        assert kind == "text/plain"
        assert text.splitlines()[:2] == [f"server: Magnetar {__version__}", "cluster: harbour"]
        assert f"  clients  {web.server.broker_url}\n" in text
        kind, body = await asked(web, "application/json")
        assert kind == "application/json"
        urls = {"clients": web.server.broker_url, "HTTP": web.server.web_url}
        assert json.loads(body)["addresses"] == urls
        kind, page = await asked(web, BROWSER)
        assert (kind, page) == ("text/html", (FOLDER / INDEX).read_text())


async def test_a_server_with_authentication_tells_its_version_and_where_the_docs_are(tmp_path: Path) -> None:
    settings = {"authenticationEnabled": "true", "anonymousUserRole": "anybody", "clusterName": "harbour"}
    async with running(tmp_path, **settings) as web:
        _, body = await asked(web, "application/json")
        assert set(json.loads(body)) == {"server", "docs"}
        _, text = await asked(web)
        assert __version__ in text
        for page in (text, (await asked(web, BROWSER))[1]):
            assert not {"harbour", web.server.broker_url} & set(page.replace("<", " ").split())
        assert "/admin" not in text


def test_a_table_of_the_text_is_aligned() -> None:
    lines = as_text({"commands": COMMANDS}).splitlines()[1:]
    assert len({line.index(text) for line, text in zip(lines, COMMANDS.values(), strict=True)}) == 1
