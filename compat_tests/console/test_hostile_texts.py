"""Names, keys, properties and contents that look like markup are shown as the texts that they are."""

import json
from urllib.parse import quote

import pulsar
import pytest

from compat_tests.chromium import Page
from compat_tests.harness import Server
from compat_tests.python.rest import Admin

ATTACKS = (
    "<img src=x onerror=window.__pwned=1>",
    "<script>window.__pwned=1",
    "\"'><svg onload=window.__pwned=1>",
    "javascript:window.__pwned=1",
    "{{constructor.constructor('window.__pwned=1')()}}${window.__pwned=1}",
)
UNTOUCHED = "window.__pwned === undefined && !document.querySelector('main img, main script, main iframe')"

pytestmark = pytest.mark.slow


def test_texts_of_strangers_are_shown_and_never_run(
    page: Page, server: Server, client: pulsar.Client, topic: str
) -> None:
    attack = " ".join(ATTACKS)
    topic = f"{topic.rpartition('/')[0]}/{attack}"
    name, subscription = quote(attack, safe=""), f"s {attack}"
    properties = {attack: attack}
    consumer = client.subscribe(
        topic, subscription, consumer_name=attack, properties=properties, consumer_type=pulsar.ConsumerType.Shared
    )
    producer = client.create_producer(topic, producer_name=attack, properties=properties, batching_enabled=False)
    ids = [producer.send(content, partition_key=attack, properties=properties) for content in contents(attack)]
    consumer.acknowledge(ids[-1])
    Admin(server).put(
        f"persistent/public/default/{name}/subscription/{quote(subscription, safe='')}/properties", properties
    )
    root = f"{server.web_url}/#/topics/persistent/public/default/{name}"
    first = f"{ids[0].ledger_id()}:{ids[0].entry_id()}"
    for path in (
        "",
        "/messages",
        f"/messages/{first}",
        "/ledgers",
        "/schemas",
        "/policies",
        "/produce",
        f"/subscriptions/{quote(subscription, safe='')}",
    ):
        page.open(f"{root}{path}")
        page.wait(f"document.querySelector('main').innerText.includes({json.dumps(attack)})", f"{path}: the text")
        page.wait("document.querySelector('main .panel .how-to')", f"{path}: its parts")
        assert page.value(UNTOUCHED), path
    page.open(f"{root}/messages?from=earliest")
    page.wait("document.querySelectorAll('[data-message]').length === 3", "the messages")
    for part in ("key", "property", "value"):
        shown = page.value(f"document.querySelector('[data-part={part}]').innerText")
        assert ATTACKS[0] in shown, part
    page.open(f"{server.web_url}/#/namespaces/public/default")
    shown = f"document.querySelector('[data-table=topics]')?.innerText.includes({json.dumps(attack)})"
    page.wait(shown, "the topic's row")
    assert page.value(UNTOUCHED)


def contents(attack: str) -> list[bytes]:
    return [attack.encode(), json.dumps({attack: attack}).encode(), b"\xff\x00" + attack.encode()]


def test_an_address_of_a_stranger_runs_nothing(page: Page, server: Server) -> None:
    for attack in ATTACKS:
        page.open(f"{server.web_url}/#/{quote(attack, safe='')}")
        page.wait("document.querySelector('main').dataset.page === 'unknown'", "the page that says so")
        page.open(f"{server.web_url}/#/tenants/{quote(attack, safe='')}")
        page.wait("document.querySelector('main .fault, main .note')", "the server's refusal")
        assert page.value(UNTOUCHED)
