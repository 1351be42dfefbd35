"""A tenant with one topic that has something of everything that the console's pages show."""

import datetime
import uuid
from dataclasses import dataclass

import pulsar
from pulsar.schema import Double, Integer, JsonSchema, Record, String

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin

MESSAGES = 40
DELAYED = 5
DELAY = datetime.timedelta(hours=2)


class Order(Record):  # type: ignore[misc]
    number = Integer()
    customer = String()
    amount = Double()


@dataclass(frozen=True)
class Shop:
    """A tenant of the test's own with one topic, which has subscriptions of several kinds."""

    server: Server
    tenant: str
    ids: list[pulsar.MessageId]
    """The ids of the messages, without the delayed ones."""

    @property
    def topic(self) -> str:
        return f"persistent://{self.tenant}/shop/orders"

    def url(self, *segments: str) -> str:
        """Returns the address of a page of the console."""
        return f"{self.server.web_url}/#/{'/'.join(segments)}"

    def topic_url(self, *more: str) -> str:
        return self.url("topics", "persistent", self.tenant, "shop", "orders", *more)

    def rest(self, *more: str) -> str:
        """Returns the path of an admin call on the topic."""
        return "/".join((f"persistent/{self.tenant}/shop/orders", *more))


def shown_id(message_id: pulsar.MessageId) -> str:
    return f"{message_id.ledger_id()}:{message_id.entry_id()}"


def open_shop(server: Server, client: pulsar.Client) -> Shop:
    """Makes a shop whose topic has messages with a schema, and three subscriptions: `audit` without a consumer,
    `billing` with holes, and `shipping`, whose two consumers share the keys."""
    admin = Admin(server)
    tenant = f"acme-{uuid.uuid4().hex[:8]}"
    admin.put(f"tenants/{tenant}", {"allowedClusters": admin.get("clusters"), "adminRoles": ["ops"]})
    admin.put(f"namespaces/{tenant}/shop")
    topic, schema = f"persistent://{tenant}/shop/orders", JsonSchema(Order)
    client.subscribe(topic, "audit").close()
    billing = client.subscribe(topic, "billing", consumer_type=pulsar.ConsumerType.Shared, consumer_name="billing-1")
    for name in ("shipping-1", "shipping-2"):
        client.subscribe(topic, "shipping", consumer_type=pulsar.ConsumerType.KeyShared, consumer_name=name)
    producer = client.create_producer(topic, producer_name="checkout", schema=schema, batching_enabled=False)
    ids = []
    for number in range(MESSAGES):
        order = Order(number=number, customer=f"customer-{number % 7}", amount=number / 4)
        properties = {"channel": "web" if number % 2 else "app"}
        ids.append(producer.send(order, partition_key=order.customer, properties=properties))
    for number in range(DELAYED):
        producer.send(Order(number=1000 + number, customer="late", amount=0.0), deliver_after=DELAY)
    for number in range(MESSAGES):
        message = billing.receive(timeout_millis=30_000)
        if number % 4 != 3:
            billing.acknowledge(message)
    made = Shop(server, tenant, ids)
    wait_until(lambda: holes_of(admin, made) == MESSAGES // 4 - 1, "the acknowledgements are there")
    return made


def holes_of(admin: Admin, shop: Shop) -> int:
    stats = admin.get(shop.rest("stats"))
    return int(stats["subscriptions"]["billing"]["nonContiguousDeletedMessagesRanges"])


def all_pages(shop: Shop) -> dict[str, tuple[str, str]]:
    """Returns by name the address of every page, with a script that says whether what the page loads is there."""

    def there(selector: str) -> str:
        return f"document.querySelector('{selector}')"

    return {
        "overview": (shop.url(), there("[data-table=namespaces] tbody")),
        "tenants": (shop.url("tenants"), there("[data-table=tenants] tbody")),
        "tenant": (shop.url("tenants", shop.tenant), there("[data-table=namespaces] tbody")),
        "namespace": (shop.url("namespaces", shop.tenant, "shop"), there("[data-table=topics] tbody")),
        "topic": (shop.topic_url(), there("[data-table=subscriptions] tbody")),
        "messages": (shop.topic_url("messages"), there("[data-message]")),
        "story": (shop.topic_url("messages", shown_id(shop.ids[3])), there("[data-subscription]")),
        "ledgers": (shop.topic_url("ledgers"), there("[data-ledger]")),
        "schemas": (shop.topic_url("schemas"), there("[data-part=schema]")),
        "policies": (shop.topic_url("policies"), there("[data-table=policies] tbody")),
        "produce": (shop.topic_url("produce"), there("[data-preview=produce]")),
        "subscription": (shop.topic_url("subscriptions", "billing"), there("[data-map=holes]")),
        "keys": (shop.topic_url("subscriptions", "shipping"), there("[data-map=keys]")),
        "brokers": (shop.url("brokers"), there("[data-table=bundles] tbody")),
        "bookies": (shop.url("bookies"), there("[data-table=bookies] tbody")),
    }
