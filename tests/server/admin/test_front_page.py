"""The page at `/` says which server answers, and says little where callers have to log in."""

import json
from html.parser import HTMLParser
from pathlib import Path

from magnetar import __version__
from magnetar.server.admin.front_page_calls import COMMANDS, as_html, as_text
from tests.server.web.web_scene import Web, running

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class Links(HTMLParser):
    """Collects the links and the words of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if tag == "a" and name == "href"]

    def handle_data(self, data: str) -> None:
        self.words += data


async def asked(web: Web, accept: str | None = None) -> tuple[str, str]:
    """Returns the content type and the body of the page."""
    headers = {} if accept is None else {"Accept": accept}
    async with web.session.get(f"{web.server.web_url}/", headers=headers) as response:
        assert (response.status, response.headers["Vary"]) == (200, "Accept")
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
        assert kind == "text/html"
        read = Links(page)
        assert web.server.broker_url in read.words
        assert read.links
        for link in read.links:
            assert (await web.get(link))[0] == 200, link


async def test_a_server_with_authentication_tells_its_version_and_where_the_docs_are(tmp_path: Path) -> None:
    settings = {"authenticationEnabled": "true", "anonymousUserRole": "anybody", "clusterName": "harbour"}
    async with running(tmp_path, **settings) as web:
        _, body = await asked(web, "application/json")
        assert set(json.loads(body)) == {"server", "docs"}
        for accept in (None, BROWSER):
            _, page = await asked(web, accept)
            assert __version__ in page
            assert not {"harbour", web.server.broker_url} & set(page.replace("<", " ").split())
            assert "/admin" not in page


def test_names_from_the_configuration_cannot_add_markup() -> None:
    assert "<b>" not in as_html({"cluster": "<b>", "addresses": {"clients": "<b>", '/"<b>': "<b>"}})


def test_a_table_of_the_text_is_aligned() -> None:
    lines = as_text({"commands": COMMANDS}).splitlines()[1:]
    assert len({line.index(text) for line, text in zip(lines, COMMANDS.values(), strict=True)}) == 1
