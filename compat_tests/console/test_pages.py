"""Every page of the console in a real Chromium, beside what the official client did."""

import json

import pulsar
import pytest

from compat_tests.chromium import Page
from compat_tests.console.page_scripts import SHOWN_MESSAGES, cell, figure, fill, has
from compat_tests.console.shop import DELAYED, MESSAGES, Shop, shown_id
from compat_tests.harness import wait_until
from compat_tests.python.rest import Admin

UNACKED = MESSAGES // 4

pytestmark = pytest.mark.slow


def test_tenants_and_namespaces_lead_to_the_topics(page: Page, shop: Shop) -> None:
    page.open(shop.url("tenants"))
    has(page, cell("tenants", shop.tenant, "tenant"), shop.tenant)
    page.value(f"document.querySelector('[data-row={json.dumps(shop.tenant)}] a').click()")
    has(page, cell("namespaces", f"{shop.tenant}/shop", "namespace"), "shop")
    page.wait("document.querySelector('main').innerText.includes('ops')", "the administrators of the tenant")
    page.value("document.querySelector('[data-table=namespaces] a').click()")
    has(page, cell("topics", shop.topic, "backlog"), str(MESSAGES + DELAYED))
    has(page, cell("topics", shop.topic, "subscriptions"), "3")
    has(page, cell("topics", shop.topic, "producers"), "1")
    page.value("document.querySelector('[data-table=topics] a').click()")
    page.wait("document.querySelector('main').dataset.page === 'topic'", "the page of the topic")


def test_a_topic_shows_its_subscriptions_and_producers(page: Page, shop: Shop) -> None:
    page.open(shop.topic_url())
    has(page, figure("Largest backlog"), str(MESSAGES + DELAYED))
    has(page, cell("subscriptions", "billing", "msgBacklog"), str(UNACKED + DELAYED))
    has(page, cell("subscriptions", "billing", "type"), "Shared")
    has(page, cell("subscriptions", "shipping", "consumers"), "2")
    has(page, cell("subscriptions", "audit", "state"), "no consumer")
    page.wait("document.querySelector('[data-table=producers]').innerText.includes('checkout')", "the producer")


def test_a_subscription_shows_its_holes_and_why_it_waits(page: Page, shop: Shop) -> None:
    why = Admin(shop.server).get(shop.rest("why?subscription=billing"))["subscriptions"]["billing"]
    page.open(shop.topic_url("subscriptions", "billing"))
    for reason in why["reasons"]:
        page.wait(f"document.querySelector('[data-reason={reason['code']}]')", reason["code"])
    told = f"{UNACKED - 1} of them in {UNACKED - 1} holes"
    page.wait(f"document.querySelector('[data-map=summary]')?.innerText.includes('{told}')", told)
    # The map is drawn from the first entry that is not acknowledged to the last one that was read.
    page.wait("document.querySelector('[data-map=holes]')?.dataset.cells > 0", "the map")
    has(page, cell("consumers", consumer_row(page), "unackedMessages"), str(UNACKED))
    has(page, figure("Delayed"), str(DELAYED))
    meters = "[...document.querySelectorAll('[data-panel=delayed] meter')].map((each) => each.value)"
    page.wait(f"{meters}.reduce((sum, each) => sum + each, 0) === {DELAYED}", "the delayed messages by time")


def consumer_row(page: Page) -> str:
    page.wait("document.querySelector('[data-table=consumers] tbody tr')", "the consumer")
    return str(page.value("document.querySelector('[data-table=consumers] tbody tr').dataset.row"))


def test_a_subscription_shows_who_holds_which_key(page: Page, shop: Shop) -> None:
    page.open(shop.topic_url("subscriptions", "shipping"))
    page.wait("document.querySelector('[data-map=keys]')", "the map of keys")
    said = page.value("document.querySelector('[data-map=keys]').getAttribute('aria-label')")
    shares = [float(part.split("has ")[1].split(" %")[0]) for part in said.split(", ")]
    assert [part.split(" ")[0] for part in said.split(", ")] == ["shipping-1", "shipping-2"]
    assert sum(shares) == pytest.approx(100, abs=0.3)


def test_ledgers_are_drawn_over_their_bookies_with_what_keeps_them(page: Page, shop: Shop) -> None:
    ledgers = Admin(shop.server).get(shop.rest("ledgers"))["ledgers"]
    page.open(shop.topic_url("ledgers"))
    for ledger in ledgers:
        found = f"document.querySelector('[data-ledger=\"{ledger['ledgerId']}\"]')"
        page.wait(found, "the ledger")
        shown = page.value(f"{found}.innerText")
        assert [each["sentence"] in shown for each in ledger["keptBy"]] == [True] * len(ledger["keptBy"])
        lanes = page.value(f"[...{found}.querySelectorAll('[data-bookie]')].map((lane) => lane.dataset.bookie)")
        assert lanes == sorted({bookie for each in ledger["fragments"] for bookie in each["bookies"]})


def test_messages_are_decoded_filtered_and_followed(page: Page, shop: Shop, client: pulsar.Client) -> None:
    page.open(f"{shop.topic_url('messages')}?from=earliest")
    first = f'[data-message="{shown_id(shop.ids[0])}"]'
    page.wait(f"document.querySelector('{first}')", "the first message")
    assert '"customer":"customer-0"' in page.value(f"document.querySelector('{first}').innerText")
    fill(page, "key", "customer-3")
    page.value("document.querySelector('main form button[type=submit]').click()")
    wanted = [shown_id(each) for index, each in enumerate(shop.ids) if index % 7 == 3]
    page.wait(f"JSON.stringify({SHOWN_MESSAGES}) === {json.dumps(json.dumps(wanted, separators=(',', ':')))}", "these")
    fill(page, "key", "")
    page.value("document.querySelector('main input[name=tail]').click()")
    new_id = client.create_producer(shop.topic).send(b'{"number": 7000}')
    page.wait(f"{SHOWN_MESSAGES}.some((id) => id.startsWith('{shown_id(new_id)}'))", "the new message by itself")


def test_a_message_tells_its_story(page: Page, shop: Shop) -> None:
    page.open(shop.topic_url("messages", shown_id(shop.ids[0])))
    for subscription, state in (("billing", "acknowledged"), ("audit", "waiting")):
        page.wait(f"document.querySelector('[data-subscription={subscription}]')?.dataset.state === '{state}'", state)
    page.wait("document.querySelector('[data-panel=where]').innerText.includes('Bookies that hold it')", "its bookies")


def test_versions_of_a_schema_are_compared(page: Page, shop: Shop) -> None:
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in ("customer", "coupon")]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    path = f"schemas/{shop.tenant}/shop/orders"
    Admin(shop.server).put(f"namespaces/{shop.tenant}/shop/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    Admin(shop.server).post(f"{path}/schema", {"type": "JSON", "schema": schema, "properties": {}})
    page.open(shop.topic_url("schemas"))
    page.wait("document.querySelector('.difference')", "the difference")
    changes = "[...document.querySelectorAll('[data-change={}]')].map((each) => each.innerText).join(' ')"
    assert "coupon" in page.value(changes.format("added"))
    assert "amount" in page.value(changes.format("removed"))


def test_a_policy_is_set_for_the_topic_and_taken_away_again(page: Page, shop: Shop) -> None:
    admin = Admin(shop.server)
    page.open(shop.topic_url("policies"))
    has(page, cell("policies", "messageTTL", "source"), "broker.conf")
    page.value("document.querySelector('[aria-label=\"Edit messageTTL\"]').click()")
    fill(page, "value", "4711")
    page.value("document.querySelector('dialog button[type=submit]').click()")
    has(page, cell("policies", "messageTTL", "value"), "4711")
    has(page, cell("policies", "messageTTL", "source"), "topic")
    assert admin.get(shop.rest("messageTTL")) == 4711
    page.value("document.querySelector('[aria-label=\"Edit messageTTL\"]').click()")
    page.wait("document.querySelector('dialog .danger')", "the way to take it away")
    page.value("document.querySelector('dialog .danger').click()")
    has(page, cell("policies", "messageTTL", "source"), "broker.conf")


def test_a_message_is_published_as_the_form_says(page: Page, shop: Shop, client: pulsar.Client) -> None:
    reader = client.create_reader(shop.topic, pulsar.MessageId.latest)
    page.open(shop.topic_url("produce"))
    page.wait("document.querySelector('main').innerText.includes('as JSON version 0')", "the schema")
    fill(page, "payload", '{"number": 5, "customer": "me", "amount": 1.5}')
    fill(page, "key", "me")
    fill(page, "properties", "channel=console\nnote=a=b")
    page.value("document.querySelector('main form button[type=submit]').click()")
    message = reader.read_next(timeout_millis=30_000)
    assert (json.loads(message.data()), message.partition_key()) == (
        {"number": 5, "customer": "me", "amount": 1.5},
        "me",
    )
    assert message.properties() == {"channel": "console", "note": "a=b"}
    page.wait(f"document.querySelector('[data-sent] a')?.innerText === '{shown_id(message.message_id())}'", "its id")


def test_an_example_of_the_schema_is_a_message_that_can_be_published(
    page: Page, shop: Shop, client: pulsar.Client
) -> None:
    topic = f"{shop.topic}-avro"
    fields = [
        {"name": "number", "type": ["null", "int"]},
        {"name": "kinds", "type": {"type": "array", "items": "string"}},
    ]
    schema = json.dumps({"type": "record", "name": "Parcel", "namespace": "shop", "fields": fields})
    Admin(shop.server).post(
        f"schemas/{shop.tenant}/shop/orders-avro/schema", {"type": "AVRO", "schema": schema, "properties": {}}
    )
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    page.open(shop.url("topics", "persistent", shop.tenant, "shop", "orders-avro", "produce"))
    example = "[...document.querySelectorAll('main button')].find((each) => each.innerText === 'Fill in an example')"
    page.wait(example, "the way to an example")
    page.value(f"{example}.click()")
    page.value("document.querySelector('main form button[type=submit]').click()")
    message = reader.read_next(timeout_millis=30_000)
    assert message.data() == b"\x02\x00\x00", "the branch of the int, the number 0, and an empty array"


@pytest.mark.parametrize(
    ("action", "text", "promised", "left"),
    [
        ("Skip", "3", "3 entries of 45", 42),
        ("Clear", None, "the whole backlog, 45 entries", 0),
        ("Reset", "latest", "45 entries that are not acknowledged will be skipped", 0),
        ("Expire", "0", "45 entries of 45", DELAYED),
    ],
)
def test_an_action_says_first_what_it_will_do(
    page: Page, shop: Shop, action: str, text: str | None, promised: str, left: int
) -> None:
    page.open(shop.topic_url("subscriptions", "audit"))
    page.wait(f"{button(action)}", "the action")
    page.value(f"{button(action)}.click()")
    if text is not None:
        fill(page, "value", text)
    preview = "document.querySelector('dialog [data-preview]')?.innerText ?? ''"
    page.wait(f"({preview}).includes({json.dumps(promised)})", promised)
    admin = Admin(shop.server)
    assert backlog_of(admin, shop) == MESSAGES + DELAYED, "a preview changes nothing"
    page.value("document.querySelector('dialog button[type=submit]').click()")
    wait_until(lambda: backlog_of(admin, shop) == left, f"{left} entries are left")
    page.wait("!document.querySelector('dialog')", "the dialog is gone")


def button(action: str) -> str:
    return f"[...document.querySelectorAll('main button')].find((each) => each.innerText === '{action}…')"


def backlog_of(admin: Admin, shop: Shop) -> int:
    return int(admin.get(shop.rest("stats"))["subscriptions"]["audit"]["msgBacklog"])


def test_peeking_shows_what_is_not_acknowledged_and_changes_nothing(page: Page, shop: Shop) -> None:
    page.open(shop.topic_url("subscriptions", "billing"))
    page.wait(button("Peek"), "the action")
    page.value(f"{button('Peek')}.click()")
    wanted = [shown_id(each) for index, each in enumerate(shop.ids) if index % 4 == 3]
    page.wait(f"JSON.stringify({SHOWN_MESSAGES}) === {json.dumps(json.dumps(wanted, separators=(',', ':')))}", "these")
    stats = Admin(shop.server).get(shop.rest("stats"))
    assert stats["subscriptions"]["billing"]["msgBacklog"] == UNACKED + DELAYED


def test_brokers_and_bookies_are_listed(page: Page, shop: Shop) -> None:
    admin = Admin(shop.server)
    page.open(shop.url("brokers"))
    for broker in admin.get(f"brokers/{admin.get('clusters')[0]}"):
        page.wait(cell("brokers", broker, "broker"), broker)
    page.wait("document.querySelector('[data-table=bundles] tbody tr')", "the bundles")
    page.open(shop.url("bookies"))
    for bookie in admin.get("bookies/all")["bookies"]:
        has(page, cell("bookies", bookie["bookieId"], "bookie"), bookie["bookieId"])
