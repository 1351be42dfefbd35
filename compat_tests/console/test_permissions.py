"""The console shows and does what the caller's role may see and do, and nothing else."""

import json
from collections.abc import Iterator

import pulsar
import pytest

from compat_tests.chromium import Chromium, Page
from compat_tests.console.page_scripts import SHOWN_MESSAGES, cell, fill, has
from compat_tests.security_site import NAMESPACE, Site, running_site

TOPIC = f"persistent://{NAMESPACE}/guarded"
DENIED = "[...document.querySelectorAll('[role=alert]')].some((each) => each.innerText.startsWith('You may not'))"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yields a site whose topic has a message and a subscription `s`."""
    with running_site(tmp_path_factory.mktemp("security")) as made:
        client = pulsar.Client(made.server.broker_url, authentication=made.of("dave"), logger=None)
        client.subscribe(TOPIC, "s").close()
        client.create_producer(TOPIC).send(b"secret")
        client.close()
        yield made


def logged_in(chromium: Chromium, site: Site, role: str, *place: str) -> Page:
    """Opens a page as a tab in which the role has logged in."""
    page = chromium.new_page()
    page.open(f"{site.server.web_url}/console/icon.svg")
    page.value(f"sessionStorage.setItem('magnetar.authorization', 'Bearer {site.token(role)}')")
    page.open("/".join((f"{site.server.web_url}/#/topics", *TOPIC.split("://"), *place)))
    return page


def test_who_may_consume_sees_messages_and_may_skip_but_not_publish(chromium: Chromium, site: Site) -> None:
    page = logged_in(chromium, site, "bob")
    has(page, cell("subscriptions", "s", "msgBacklog"), "1")
    page = logged_in(chromium, site, "bob", "messages")
    page.wait(f"{SHOWN_MESSAGES}.length === 1", "the message")
    assert "secret" in page.text()
    page = logged_in(chromium, site, "bob", "produce")
    fill(page, "payload", "forged")
    page.value("document.querySelector('[data-panel=produce] button[type=submit]').click()")
    page.wait(DENIED, "the refusal")
    assert stored(site) == ["secret"]


def test_who_may_produce_sees_no_message(chromium: Chromium, site: Site) -> None:
    page = logged_in(chromium, site, "alice", "messages")
    page.wait(DENIED, "the refusal")
    assert "secret" not in page.text()
    page = logged_in(chromium, site, "alice", "produce")
    fill(page, "payload", "allowed")
    page.value("document.querySelector('[data-panel=produce] button[type=submit]').click()")
    page.wait("document.querySelector('[data-sent]')", "the receipt")
    assert stored(site) == ["secret", "allowed"]


def test_neither_changes_policies_nor_sees_the_broker(chromium: Chromium, site: Site) -> None:
    page = logged_in(chromium, site, "bob", "policies")
    page.wait(DENIED, "the refusal")
    page.open(f"{site.server.web_url}/#/")
    page.wait(DENIED, "the refusal of the broker's figures")
    assert site.call(f"/admin/v2/{TOPIC.replace('://', '/')}/policySources", role="bob")[0] in (401, 403)


def stored(site: Site) -> list[str]:
    status, text = site.call(f"/admin/v2/{TOPIC.replace('://', '/')}/messages?from=earliest", role="admin")
    assert status == 200
    return [each["value"]["content"] for each in json.loads(text)["messages"]]
