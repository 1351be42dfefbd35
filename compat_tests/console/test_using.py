"""Small and large windows, the keyboard alone, a path prefix, a restart, ten thousand topics, logins."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from compat_tests.chromium import Chromium, Page
from compat_tests.console.page_scripts import cell, has
from compat_tests.console.shop import Shop, all_pages
from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from compat_tests.security_site import TENANT, Site, running_site

PREFIX = "/pulsar/console"

pytestmark = pytest.mark.slow


def test_pages_fit_their_window_and_say_how_to_get_their_numbers_and_what_each_thing_is(page: Page, shop: Shop) -> None:
    for at, (url, is_there) in enumerate(all_pages(shop).values()):
        page.colours("dark" if at % 2 else "light")
        page.size(360)
        page.open(url)
        page.wait(is_there, url)
        for width in (360, 1280, 2000):
            page.size(width)
            page.wait(f"innerWidth === {width}", "the width")
            assert page.value("document.documentElement.scrollWidth") <= width, f"{url} at {width}"
        assert page.value(PANELS_WITHOUT_A_CALL) == [], url
        assert page.value(NAMELESS) == [], url


PANELS_WITHOUT_A_CALL = """
[...document.querySelectorAll('main .panel')]
  .filter((panel) => !/(GET|POST) \\//.test(panel.querySelector('.how-to')?.textContent ?? ''))
  .map((panel) => panel.dataset.panel)
"""


NAMELESS = """
[...document.querySelectorAll('a, button, input, select, textarea, canvas, svg, [role=img]')]
  .filter((each) => each.offsetParent !== null || each instanceof SVGElement)
  .filter((each) => !each.parentElement.closest('[role=img]'))
  .filter((each) => !(each.innerText || each.textContent || '').trim() && !each.ariaLabel && !each.labels?.length)
  .map((each) => each.outerHTML.slice(0, 200))
"""


def test_the_keyboard_alone_leads_everywhere(page: Page, shop: Shop) -> None:
    page.open(shop.url("tenants", shop.tenant))
    page.wait("document.querySelector('[data-table=namespaces] a')", "the namespace")
    page.press("Tab")
    assert page.value("document.activeElement.innerText") == "Skip to the page"
    page.press("Enter")
    assert page.value("document.activeElement.localName") == "main"
    tab_to(page, "document.activeElement.matches('[data-table=namespaces] tbody a')")
    page.press("Enter")
    page.wait("document.querySelector('[data-table=topics] tbody a')", "the topics")
    assert page.value("document.activeElement.localName") == "main", "the new page has the focus"
    tab_to(page, "document.activeElement.matches('[data-table=topics] tbody a')")
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen"
    page.press("Enter")
    page.wait("document.querySelector('[data-table=subscriptions]')", "the topic")
    tab_to(page, "document.activeElement.matches('[data-row=audit] a')")
    page.press("Enter")
    page.wait("document.querySelector('main').dataset.page === 'subscription'", "the subscription")
    tab_to(page, "document.activeElement.innerText === 'Skip…'")
    page.press("Enter")
    page.wait("document.activeElement.matches('dialog input')", "the dialog's field has the focus")
    page.press("Escape")
    page.wait("!document.querySelector('dialog')", "the dialog is gone")
    assert page.value("document.activeElement.innerText") == "Skip…", "the focus goes back"


def tab_to(page: Page, is_there: str) -> None:
    """Presses Tab until the focus is where a script says. Raises AssertionError when it comes nowhere near."""
    for _ in range(80):
        page.press("Tab")
        if page.value(is_there):
            return
    raise AssertionError(f"Tab does not lead to {is_there}")


@contextmanager
def proxy_at_a_prefix(target: str) -> Iterator[str]:
    """Runs a proxy that shows a server below PREFIX and nowhere else, and yields the address of its web root."""
    server = urlsplit(target)

    class Forward(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = HTTPConnection(server.hostname or "", server.port, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name not in ("Host", "Connection")}
            connection.request(self.command, self.path.removeprefix(PREFIX), body, headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name not in ("Transfer-Encoding", "Connection"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                while part := answer.read1(65_536):
                    self.wfile.write(part)
            except OSError:
                pass  # The page was left while its stream was open.
            finally:
                connection.close()

        do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815  (names of http.server)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        proxy.server_close()


def test_it_works_behind_a_path_prefix(page: Page, shop: Shop) -> None:
    with proxy_at_a_prefix(shop.server.web_url) as root:
        pages = all_pages(shop)
        for url, is_there in (pages[name] for name in ("overview", "namespace", "messages", "policies", "keys")):
            page.open(url.replace(shop.server.web_url, f"{root}{PREFIX}"))
            page.wait(is_there, url)
        page.open("about:blank")


def test_a_page_goes_on_by_itself_after_a_restart(chromium: Chromium, own_server: Server) -> None:
    admin = Admin(own_server)
    admin.put("persistent/public/default/first")
    page = chromium.new_page()
    page.open(f"{own_server.web_url}/#/namespaces/public/default")
    first, second = (f"persistent://public/default/{name}" for name in ("first", "second"))
    has(page, cell("topics", first, "topic"), "first")
    own_server.stop()
    page.wait("document.querySelector('.away')", "the page says that the server is away")
    has(page, cell("topics", first, "topic"), "first")
    own_server.start()
    admin.put("persistent/public/default/second")
    page.wait("!document.querySelector('.away')", "the server is there again")
    has(page, cell("topics", second, "topic"), "second")
    assert page.complaints == []
    page.close()


def test_ten_thousand_topics_stay_fluid(page: Page, server: Server) -> None:
    """All topics can be searched and sorted, while only the rows in view are drawn."""
    admin, namespace = Admin(server), f"public/many-{uuid4().hex[:8]}"
    admin.put(f"namespaces/{namespace}")
    admin.put(f"persistent/{namespace}/many/partitions", 10_000)
    page.open(f"{server.web_url}/#/namespaces/{namespace}")
    page.wait("document.querySelector('[data-table=topics]')?.dataset.rows > 9999", "all topics")
    drawn = "document.querySelectorAll('[data-table=topics] tbody tr').length"
    assert page.value(drawn) < 200
    page.value("document.querySelector('.windowed').scrollTop = 1e9")
    last = f"persistent://{namespace}/many-partition-9999"
    page.wait(f"document.querySelector('[data-row={json.dumps(last)}]')", "the last row")
    assert page.value(drawn) < 200
    page.value("document.querySelector('main input[type=search]').focus()")
    page.type("many 777")
    page.wait("document.querySelector('[data-table=topics]').dataset.rows === '19'", "what is searched for")
    assert page.value("document.querySelector('main [role=status]').innerText").startswith("19 of 10,00")


def log_in(page: Page, kind: str, **fields: str) -> None:
    page.wait("document.querySelector('[data-dialog=login]')", "the login")
    page.value(f"document.querySelector('[data-dialog=login] input[value={kind}]').click()")
    for name, text in fields.items():
        page.wait(f"document.querySelector('dialog [name={name}]')", name)
        page.value(f"document.querySelector('dialog [name={name}]').select()")
        page.type(text)
    page.value("document.querySelector('[data-dialog=login] button[type=submit]').click()")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("security")) as made:
        yield made


def test_a_login_is_asked_for_and_kept_by_the_tab_alone(chromium: Chromium, site: Site) -> None:
    url, token = f"{site.server.web_url}/#/tenants", site.token("admin")
    page = chromium.new_page()
    page.open(url)
    log_in(page, "token", token="no-token")
    page.wait("document.querySelector('[data-dialog=login] .fault')", "the login is refused")
    log_in(page, "token", token=token)
    has(page, cell("tenants", TENANT, "tenant"), TENANT)
    assert token not in page.value("location.href + document.cookie + JSON.stringify(localStorage)")
    page.open(url)
    has(page, cell("tenants", TENANT, "tenant"), TENANT)
    other = chromium.new_page()
    other.open(url)
    other.wait("document.querySelector('[data-dialog=login]')", "another tab has to log in")
    page.to_front()
    page.value("document.querySelector('.top-bar > button').click()")
    page.wait("document.querySelector('[data-dialog=login]')", "nobody is logged in")
    assert page.value("sessionStorage.length") == 0
    assert page.complaints + other.complaints == []
    page.close()
    other.close()


def test_a_name_and_a_password_are_a_login(chromium: Chromium, site: Site) -> None:
    topic = site.topic("basic")
    assert site.call(f"/admin/v2/{topic.replace('://', '/')}", role="admin", method="PUT")[0] == 204
    page = chromium.new_page()
    page.open(f"{site.server.web_url}/#/topics/{topic.replace('://', '/')}")
    log_in(page, "basic", user="dave", password="pass:word")
    page.wait("document.querySelector('[data-figure=Subscriptions]')", "the topic")
    page.wait("document.querySelector('.top-bar').innerText.includes('Log out dave')", "who is logged in")
    page.close()
