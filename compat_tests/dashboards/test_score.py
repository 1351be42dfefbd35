"""The score: how much of what the published dashboards ask for do the pages of running servers have? All of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.dashboards import queried
from compat_tests.dashboards.feature_load import topic
from compat_tests.dashboards.queried import Queried
from compat_tests.dashboards.recovery_process import OurRecovery
from compat_tests.dashboards.scrape import Scrape, has, scrape, total


def score(title: str, asked: Sequence[Queried], page: Scrape) -> int:
    """Prints how many of the metrics the page has with all labels, and fails if one is missing."""
    missing = [each for each in asked if not has(page, each.name, each.labels.split())]
    print(f"{title}: {len(asked) - len(missing)} of {len(asked)}")
    assert missing == []
    return len(asked)


def test_everything_that_dashboards_ask_for_and_apache_has_is_there(broker: Scrape, bookie: Scrape) -> None:
    count = (
        score("broker, topics, subscriptions", queried.OF_BROKERS, broker)
        + score("bookies", queried.OF_BOOKIES, bookie)
        + score("processes", queried.OF_PROCESSES, broker)
        + score("stand-ins for a JVM", queried.OF_JVMS, broker)
    )
    print(f"in all {count}")
    assert count >= 119


def test_names_of_one_key_of_older_versions_and_of_mistaken_dashboards_are_there_too(
    broker: Scrape, bookie: Scrape
) -> None:
    score("with a key", queried.OF_BROKERS_BY_KEY, broker)
    score("never at Apache's", queried.NEVER_AT_APACHE, broker)
    score("of older bookies", queried.OF_OLDER_BOOKIES, bookie)


def test_a_broker_of_a_cluster_has_the_metrics_of_load_balancing(cluster: Cluster) -> None:
    page = scrape(cluster.brokers[0].web_url)
    score("load balancing", queried.OF_LOAD_BALANCE, page)
    score("brokers of a cluster", queried.OF_BROKERS, page)


def test_auto_recovery_has_a_port_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    with OurRecovery(tmp_path, cluster.zookeeper.address) as recovery:
        page = scrape(recovery.url)
    score("auto-recovery", queried.OF_RECOVERY, page)


def test_a_label_or_a_name_that_is_not_there_is_noticed(broker: Scrape) -> None:
    with pytest.raises(AssertionError):
        score("a label", [Queried("pulsar_rate_in", "cluster bundle", "")], broker)
    with pytest.raises(AssertionError):
        score("a name", [Queried("pulsar_rate", "cluster", "")], broker)


def test_the_figures_are_those_of_the_load(broker: Scrape, bookie: Scrape) -> None:
    def of(name: str, **labels: str) -> float:
        return total(broker, name, **labels)

    assert of("pulsar_in_messages_total", topic=topic("sizes")) == 9
    assert of("pulsar_subscription_back_log", topic=topic("type-Shared")) == 5
    assert of("pulsar_subscription_delayed", topic=topic("delayed")) == 5
    assert of("pulsar_subscription_unacked_messages", topic=topic("redelivered")) == 5
    assert of("pulsar_subscription_storage_backlog_age_seconds", topic=topic("type-Shared")) >= 0
    assert of("pulsar_broker_publish_latency_count") > 100
    assert 0 < of("pulsar_broker_publish_latency", quantile="0.99") < 60_000
    assert of("pulsar_ml_cache_inserted_entries_total") > 0
    assert of("caffeine_cache_miss_total") >= 20
    assert of("pulsar_compaction_latency_count", topic=topic("compacted")) == 1
    assert of("pulsar_schema_put_ops_latency_count") >= 1
    assert of("pulsar_broker_lookup_answers_total") > 0
    assert of("pulsar_metadata_store_ops_latency_ms_count", type="put", status="success") > 0
    assert of("pulsar_health") == 1
    assert of("pulsar_topic_load_times_count") > 5
    assert total(bookie, "bookkeeper_server_ADD_ENTRY_count", success="true") > 100
    assert total(bookie, "bookkeeper_server_READ_ENTRY_count", success="true") > 0
    assert 0 < total(bookie, "bookie_journal_JOURNAL_SYNC", quantile="0.5", success="true") < 60_000
    assert total(bookie, "bookie_entries_count") > 100
