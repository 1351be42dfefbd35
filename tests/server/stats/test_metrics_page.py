"""The page of /metrics of a whole server: Pulsar's names, labels and kinds, compression, and what the keys show."""

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pulsar_proto.ids import EARLIEST
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.web.web_scene import TOPIC, Web, running

ROOT = Path(__file__).resolve().parents[3]
VECTORS = json.loads((ROOT / "tests" / "vectors" / "rest_reads.json").read_text())

OURS = ("magnetar_", "jvm_", "jetty_", "caffeine_")
"""The prefixes of names that the recorded page of Apache's broker does not have."""

ADDED = {
    "pulsar_storage_write_latency_le_overflow": "pulsar_storage_write_latency_overflow",
    "pulsar_storage_ledger_write_latency_le_overflow": "pulsar_storage_write_latency_overflow",
    "pulsar_entry_size_overflow": "pulsar_entry_size_le_overflow",
    "pulsar_subscription_storage_backlog_age_seconds": "pulsar_subscription_back_log",
    "topic_load_failed_total": "pulsar_broker_topics_count",
}
"""Names that dashboards or newer versions of Pulsar know, each with a recorded name that has the same labels."""

WITHOUT_MEANING = (
    "_created",
    "pulsar_resource_group_",
    "pulsar_txn_",
    "pulsar_ml_cache_pendingreads_",
    "pulsar_ml_cache_pool_",
    "pulsar_topic_load_rate_s",
)
"""Parts of the names that Apache's broker has and this one lacks: times of creation, features that do not exist here,
and the pools of Netty."""

IF_THERE_IS_ONE = ("pulsar_compaction_", "pulsar_schema_del_", "pulsar_schema_incompatible_", "pulsar_schema_put_")
RARE = ("_dispatch_throttled_", "_quota_exceeded_evictions_total", "pulsar_schema_")
"""Parts of the names of metrics that only appear once there was something to count."""


Samples = dict[tuple[str, str | None, str | None], float]
"""Name, topic and subscription -> value."""


def subscribe(topic: str, subscription: str, sub_type: int = 1) -> pb.BaseCommand:
    values = {"topic": topic, "subscription": subscription, "subType": sub_type, "initialPosition": 1}
    return command("SUBSCRIBE", "subscribe", consumer_id=1, request_id=2, **values)


def apaches() -> dict[str, set[str]]:
    """Returns the recorded names of Apache's page, each with its labels."""
    known = {}
    for line in VECTORS["metrics"]:
        name, _, labels = line.split(" ")[0].rstrip("}").partition("{")
        known[name] = set(labels.split(","))
    return known


def samples_of(text: str) -> Samples:
    return {
        (sample.name, sample.labels.get("topic"), sample.labels.get("subscription")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labels_of(text: str) -> dict[str, list[Mapping[str, str]]]:
    labels: dict[str, list[Mapping[str, str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, []).append(sample.labels)
    return labels


async def page(web: Web) -> str:
    status, content_type, text = await web.get("/metrics/")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return text


async def samples_when(web: Web, holds: Callable[[Samples], bool]) -> Samples:
    """Reads the page again and again until the condition holds."""
    async with asyncio.timeout(60):
        while True:
            samples = samples_of(await page(web))
            if holds(samples):
                return samples


async def test_names_labels_and_kinds_are_pulsars(tmp_path: Path) -> None:
    async with running(tmp_path, transactionCoordinatorEnabled="false") as web:  # as at the recorded broker
        client = await web.publish(3)
        client.say(subscribe(TOPIC, 's"\\\n'))
        await client.answer()
        text = await page(web)
    known = apaches()
    for name, labels in labels_of(text).items():
        if not name.startswith(OURS):
            assert set(labels[0]) == known[ADDED.get(name, name)], name
    samples = samples_of(text)
    assert samples["pulsar_topics_count", None, None] == 1
    assert samples["pulsar_in_messages_total", TOPIC, None] == 3
    assert samples["pulsar_producers_count", TOPIC, None] == 1
    assert samples["pulsar_subscription_back_log", TOPIC, 's"\\\n'] == 3
    assert samples["pulsar_broker_consumers_count", None, None] == 1
    assert samples["pulsar_broker_publish_latency_count", None, None] == 3
    assert samples["process_resident_memory_bytes", None, None] > 1_000_000


async def test_the_page_has_every_name_of_apaches_page_that_has_a_meaning_here(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        client = await web.publish(3)
        client.say(subscribe(TOPIC, "s"))
        await client.answer()
        names = set(labels_of(await page(web)))
    missing = {
        name
        for name in set(apaches()) - names
        if not any(part in name for part in (*WITHOUT_MEANING, *IF_THERE_IS_ONE, *RARE))
    }
    assert missing == set()


async def test_every_sample_stands_below_the_only_type_line_of_its_family(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(1)
        client = await web.publish(1, "persistent://public/default/t2")
        client.say(subscribe("non-persistent://public/default/volatile", "s"))
        await client.answer()
        text = await page(web)
    families: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            family = line.split(" ")[2]
            assert family not in families
            families.add(family)
        else:
            assert line.startswith(family), (family, line)
    assert len(families) > 150


async def test_the_path_without_a_slash_is_redirected(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        async with web.session.get(f"{web.server.web_url}/metrics?a=1", allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (302, "/metrics/?a=1")
        async with web.session.get(f"{web.server.web_url}/metrics") as response:
            assert "pulsar_version_info" in await response.text()


async def test_the_page_is_compressed_only_for_callers_that_take_gzip(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(1)
        packed = await web.said(b"GET /metrics/ HTTP/1.0\r\nAccept-Encoding: br, gzip;q=0.5\r\n\r\n")
        head, _, body = packed.partition(b"\r\n\r\n")
        assert b"Content-Encoding: gzip" in head
        plain = await web.said(b"GET /metrics/ HTTP/1.0\r\nAccept-Encoding: gzip;q=0\r\n\r\n")
        head, _, text = plain.partition(b"\r\n\r\n")
        assert b"Content-Encoding" not in head
        assert f"Content-Length: {len(text)}".encode() in head
        assert set(labels_of(gzip.decompress(body).decode())) == set(labels_of(text.decode()))
        assert len(body) < len(text) / 5


async def test_buckets_and_rates_are_those_of_the_last_period(tmp_path: Path) -> None:
    async with running(tmp_path, managedLedgerStatsPeriodSeconds="1") as web:
        await web.publish(5)

        key = "pulsar_entry_size_count", TOPIC, None
        samples = await samples_when(web, lambda samples: samples[key] > 0)
        assert samples["pulsar_entry_size_le_128", TOPIC, None] == samples[key] == 5
        assert samples["pulsar_storage_write_latency_count", TOPIC, None] == 5
        assert samples["pulsar_storage_write_rate", TOPIC, None] > 0
        samples = await samples_when(web, lambda samples: samples[key] == 0)
        assert samples["pulsar_storage_write_rate", TOPIC, None] == 0


async def test_consumers_and_producers_have_metrics_if_their_keys_are_set(tmp_path: Path) -> None:
    keys = {
        "exposeConsumerLevelMetricsInPrometheus": "true",
        "exposeProducerLevelMetricsInPrometheus": "true",
        "exposeManagedCursorMetricsInPrometheus": "true",
    }
    async with running(tmp_path, **keys) as web:
        client = await web.publish(1)
        client.say(subscribe(TOPIC, "s"))
        await client.answer()
        labels = labels_of(await page(web))
    place = {"cluster": "standalone", "namespace": "public/default", "topic": TOPIC}
    assert labels["pulsar_producer_msg_rate_in"] == [{**place, "producer_name": "p", "producer_id": "1"}]
    consumer = {**place, "subscription": "s", "consumer_name": "", "consumer_id": "1"}
    assert labels["pulsar_consumer_available_permits"] == [consumer]
    assert consumer in labels["pulsar_out_messages_total"]
    assert labels["pulsar_ml_cursor_nonContiguousDeletedMessagesRange"][0]["cursor_name"] == "s"


async def test_topics_are_summed_up_by_namespace_if_the_key_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, exposeTopicLevelMetricsInPrometheus="false") as web:
        client = await web.publish(2)
        client.say(subscribe(TOPIC, "s"))
        await client.answer()
        await web.publish(3, "persistent://public/default/t2")
        text = await page(web)
    labels, samples = labels_of(text), samples_of(text)
    assert "pulsar_subscription_back_log" not in labels
    assert samples["pulsar_in_messages_total", None, None] == 5
    namespace = {"cluster": "standalone", "namespace": "public/default"}
    assert labels["pulsar_msg_backlog"] == [{**namespace, "remote_cluster": "local"}]
    assert labels["pulsar_rate_in"] == [namespace]


async def test_a_partitions_number_is_a_label_of_its_own_if_the_key_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, splitTopicAndPartitionLabelInPrometheus="true") as web:
        await web.publish(1)
        await web.publish(1, "persistent://public/default/parted-partition-7")
        labels = labels_of(await page(web))["pulsar_rate_in"]
    places = {(each["topic"], each["partition"]) for each in labels}
    assert places == {(TOPIC, "-1"), ("persistent://public/default/parted", "7")}


async def test_a_topic_takes_less_than_a_kilobyte_of_a_compressed_page(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        headers = {"Accept-Encoding": "gzip"}
        sizes = []
        for first in (0, 200):
            for number in range(first, first + 200):
                name = TopicName.parse(f"persistent://public/default/orders-{number:06d}")
                topic = await web.server.service.get_topic(name, create=True)
                await topic.create_subscription("billing", EARLIEST)
            async with web.session.get(f"{web.server.web_url}/metrics/", headers=headers) as response:
                sizes.append(int(response.headers["Content-Length"]))
        assert (sizes[1] - sizes[0]) / 200 < 1_000
