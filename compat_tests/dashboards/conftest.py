"""Running servers under a load that touches every feature, and their pages of metrics."""

from collections.abc import Iterator

import pytest

from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.own_zookeeper import OwnZooKeeper
from compat_tests.dashboards.feature_load import FeatureLoad, wait_for
from compat_tests.dashboards.scrape import Scrape, scrape, total
from compat_tests.harness import Server

SETTINGS = {
    "exposeConsumerLevelMetricsInPrometheus": "true",
    "exposeProducerLevelMetricsInPrometheus": "true",
    "managedLedgerStatsPeriodSeconds": "1",
    "statsUpdateFrequencyInSecs": "1",
    "backlogQuotaCheckIntervalInSeconds": "1",
    "brokerDeduplicationEnabled": "true",
}


@pytest.fixture(scope="package")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("standalone"), settings=SETTINGS) as server:
        load = FeatureLoad(server.broker_url, server.web_url)
        load.run()
        yield server
        load.close()


@pytest.fixture(scope="package")
def broker(standalone: Server) -> Scrape:
    """Returns a page of the standalone server, once its periodic work has seen the load."""
    evicted = "pulsar_storage_backlog_quota_exceeded_evictions_total"
    wait_for(lambda: total(scrape(standalone.web_url), evicted, quota_type="size") > 0, "no backlog was evicted")
    compacted = "pulsar_compaction_succeed_count"
    wait_for(lambda: total(scrape(standalone.web_url), compacted) > 0, "the topic was not compacted")
    return scrape(standalone.web_url)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    keys = {
        "httpServerEnabled": "true",
        "httpServerHost": "127.0.0.1",
        "httpServerPort": "0",
        "autoRecoveryDaemonEnabled": "true",
    }
    seats = Seats(metadata=OwnZooKeeper)
    with Cluster(tmp_path_factory.mktemp("cluster"), bookie_keys=keys, seats=seats, settings=SETTINGS) as made:
        load = FeatureLoad(made.service_url, made.brokers[0].web_url)
        load.run()
        yield made
        load.close()


@pytest.fixture(scope="package")
def bookie(cluster: Cluster) -> Scrape:
    return scrape(f"http://127.0.0.1:{cluster.bookies[0].ready['httpPort']}")
