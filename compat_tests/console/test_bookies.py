"""The disks of bookies and auto-recovery, as the pages of a standalone server and of a cluster's broker tell them."""

from pathlib import Path

import pytest

from compat_tests.chromium import Page
from compat_tests.cluster.admin import call
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.own_zookeeper import OwnZooKeeper
from compat_tests.conftest import ClientFactory
from compat_tests.console.page_scripts import cell
from compat_tests.console.shop import Shop
from compat_tests.harness import wait_until
from compat_tests.python.rest import Admin

STATE = "/admin/v2/bookies/autorecovery"
RECOVERY = "document.querySelector('[data-panel=recovery]')?.innerText"

pytestmark = pytest.mark.slow


def test_a_standalone_server_tells_its_disk_and_has_nothing_to_recover(page: Page, shop: Shop) -> None:
    disk = Admin(shop.server).get("bookies/disks")["127.0.0.1:3181"]
    page.open(shop.url())
    said = "document.querySelector('[data-panel=disk]')?.innerText"
    page.wait(f"{said}?.includes('takes writes')", "the disk takes writes")
    assert f"above {100 * disk['diskUsageThreshold']:.2f} % used" in page.value(said)
    page.open(shop.url("bookies"))
    page.wait(f"{cell('bookies', '127.0.0.1:3181', 'free')}?.endsWith('iB')", "the room of the bookie")
    page.wait(f"{RECOVERY}?.includes('nothing to recover from')", "the one bookie")


def test_a_cluster_tells_which_ledgers_lack_the_copies_of_a_lost_bookie(
    page: Page, tmp_path: Path, make_client: ClientFactory, topic: str
) -> None:
    with Cluster(
        tmp_path,
        bookies=2,
        bookie_keys={"autoRecoveryDaemonEnabled": "true"},
        seats=Seats(metadata=OwnZooKeeper),
    ) as cluster:
        stays, lost = cluster.bookies
        broker = cluster.brokers[0]
        url = f"{broker.web_url}/#/bookies"
        producer = make_client(cluster.service_url).create_producer(topic)
        producer.send(b"one")
        page.open(url)
        for each in (stays, lost):
            page.wait(f"{cell('bookies', each.bookie_id, 'free')}?.endsWith('iB')", each.bookie_id)
        page.wait(f"{RECOVERY}?.includes('Every ledger has all of its copies')", "nothing is lost")
        lost.kill()
        wait_until(lambda: call(broker, STATE)["underreplicated"] > 0, "the auditor has seen it")
        page.open(url)
        page.wait("document.querySelector('[data-table=underreplicated] tbody')", "the ledgers")
        assert lost.bookie_id in page.value(RECOVERY)
        page.wait(f"{RECOVERY}.includes('{stays.bookie_id}')", "the auditor")
