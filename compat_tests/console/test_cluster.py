"""The console of each broker of a cluster: what any broker knows is there, and topics of another broker are found."""

from pathlib import Path

import pulsar
import pytest

from compat_tests.chromium import Page
from compat_tests.conftest import ClientFactory
from compat_tests.console.page_scripts import cell, has
from compat_tests.console.shop import open_shop
from compat_tests.harness import Server
from compat_tests.products import MagnetarCluster
from compat_tests.python.rest import Admin, owner_web_url

BROKERS = 2

pytestmark = pytest.mark.slow


def test_a_broker_s_console_leads_to_topics_of_other_brokers(
    page: Page, tmp_path: Path, make_client: ClientFactory
) -> None:
    with Server(tmp_path / "cluster", product=MagnetarCluster(brokers=BROKERS, bookies=1)) as server:
        client: pulsar.Client = make_client(server.broker_url)
        shop = open_shop(server, client)
        brokers = Admin(server).get("brokers/standalone")
        assert len(brokers) == BROKERS
        for broker in brokers:
            root = f"http://{broker}"
            page.open(f"{root}/#/namespaces/{shop.tenant}/shop")
            has(page, cell("topics", shop.topic, "subscriptions"), "3")
            page.open(shop.topic_url().replace(server.web_url, root))
            if root != owner_web_url(server, shop.topic):
                link = "document.querySelector('main .note a')"
                page.wait(link, "the way to the owner")
                page.value(f"{link}.click()")
            page.wait("document.querySelector('[data-row=billing]')", "the topic at its owner")
            page.open(f"{root}/#/brokers")
            for each in brokers:
                page.wait(cell("brokers", each, "broker"), each)
            page.wait("document.querySelector('[data-table=brokers] .badge')", "the leader")
