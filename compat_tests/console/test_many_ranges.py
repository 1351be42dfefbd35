"""A subscription with more acknowledged ranges than the broker lists: its map shows all of them."""

import json

import pulsar
import pytest

from compat_tests.chromium import Page
from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin

RANGES = 1_500
LISTED = 1_000

pytestmark = pytest.mark.slow


def test_the_map_reaches_behind_the_ranges_that_are_listed(
    page: Page, server: Server, client: pulsar.Client, topic: str
) -> None:
    admin, path = Admin(server), topic.replace("://", "/")
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(2 * RANGES):
        producer.send_async(b"%d" % number, lambda result, message_id: None)
    producer.flush()
    for number in range(2 * RANGES):
        message = consumer.receive(timeout_millis=60_000)
        if number % 2:
            consumer.acknowledge(message)

    def acked_ranges() -> int:
        cursor = admin.get(f"{path}/internalStats")["cursors"]["s"]
        assert cursor["individuallyDeletedMessages"].count("..") <= LISTED
        return int(cursor["totalNonContiguousDeletedMessagesRange"])

    wait_until(lambda: acked_ranges() == RANGES, "the acknowledgements are there")
    told = admin.get(f"{path}/subscription/s/ackMap?cells=300")
    assert (told["entries"], told["ackedRanges"], told["entriesInHoles"]) == (2 * RANGES, RANGES, RANGES)
    assert told["acked"] == [5] * 300
    page.open(f"{server.web_url}/#/topics/{path}/subscriptions/s")
    said = f"{2 * RANGES:,} entries behind the mark-delete position, {RANGES:,} of them in holes before {RANGES:,} "
    page.wait(f"document.querySelector('[data-map=summary]')?.innerText.includes({json.dumps(said)})", said)
    entries_per_cell = (
        "Number(/stands for (\\d+)/.exec(document.querySelector('[data-map=summary]').innerText)?.[1] ?? 1)"
    )
    cells = "Number(document.querySelector('[data-map=holes]').dataset.cells)"
    assert page.value(f"{cells} * {entries_per_cell}") >= 2 * RANGES
    assert page.value("document.querySelector('[data-panel=backlog] details summary').innerText").startswith("Holes")
