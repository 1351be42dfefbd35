"""The configuration that is changed over REST takes hold at once, without a restart, and comes back after one."""

import json
from pathlib import Path

from magnetar.server.topics.topic import Topic
from pulsar_proto.names import TopicName
from tests.server.web.web_scene import Web, running
from tests.waiting import until

CONFIGURATION = "/admin/v2/brokers/configuration"
APACHE = json.loads((Path(__file__).parents[2] / "vectors" / "dynamic_configuration.json").read_text())
TOPIC = "persistent://public/default/t1"


async def change(web: Web, name: str, text: str) -> None:
    assert await web.call("POST", f"{CONFIGURATION}/{name}/{text}") == (200, "")


async def loaded(web: Web) -> Topic:
    assert (await web.call("PUT", "/admin/v2/persistent/public/default/t1"))[0] == 204
    topic = web.server.service.loaded(TopicName.parse(TOPIC))
    assert topic is not None
    return topic


async def test_the_keys_are_listed_as_apache_lists_them(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert await web.json(CONFIGURATION) == sorted(APACHE)


async def test_a_limit_holds_for_the_next_call(tmp_path: Path) -> None:
    async with running(tmp_path, maxNumPartitionsPerPartitionedTopic="2") as web:
        path = "/admin/v2/persistent/public/default/p/partitions"
        assert (await web.call("PUT", path, "3"))[0] == 406
        await change(web, "maxNumPartitionsPerPartitionedTopic", "3")
        assert (await web.call("PUT", path, "3"))[0] == 204
        assert (await web.json(f"{CONFIGURATION}/runtime"))["maxNumPartitionsPerPartitionedTopic"] == "3"
        assert await web.call("DELETE", f"{CONFIGURATION}/maxNumPartitionsPerPartitionedTopic") == (200, "")
        assert (await web.call("PUT", path.replace("/p/", "/q/"), "3"))[0] == 406
        assert await web.json(f"{CONFIGURATION}/values") == {}


async def test_loaded_topics_follow(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        topic = await loaded(web)
        await change(web, "maxPublishRatePerTopicInMessages", "7")
        await until(lambda: topic.policies.publish_rate.messages == 7)
        assert len(topic.publishing.limiters) == 1
        await change(web, "brokerPublisherThrottlingMaxMessageRate", "9")
        await until(lambda: [each.rate.messages for each in topic.publishing.limiters] == [7, 9])
        await change(web, "brokerPublisherThrottlingMaxMessageRate", "11")
        await until(lambda: [each.rate.messages for each in topic.publishing.limiters] == [7, 11])
        await change(web, "brokerPublisherThrottlingMaxMessageRate", "0")
        await until(lambda: [each.rate.messages for each in topic.publishing.limiters] == [7])
        await change(web, "managedLedgerInactiveLedgerRolloverTimeSeconds", "77")
        await until(lambda: topic.ledger.config.managed_ledger_inactive_ledger_rollover_time_seconds == 77)
        await change(web, "autoSkipNonRecoverableData", "true")
        await until(lambda: topic.ledger.config.auto_skip_non_recoverable_data)


async def test_what_the_broker_was_built_with_follows(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        factory = web.server.service._factory
        await change(web, "managedLedgerCacheSizeMB", "3")
        await until(lambda: factory.cache.bytes_max == 3 << 20)
        await change(web, "maxConcurrentLookupRequest", "1")
        await change(web, "maxConcurrentTopicLoadRequest", "3")
        assert web.server.service.settings.max_concurrent_topic_load_request == 3
        await change(web, "maxMessagePublishBufferSizeInMB", "5")
        in_force = await web.json(f"{CONFIGURATION}/runtime")
        assert (in_force["maxConcurrentLookupRequest"], in_force["maxMessagePublishBufferSizeInMB"]) == ("1", "5")


async def test_a_change_outlives_the_process(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await change(web, "maxTopicsPerNamespace", "5")
    async with running(tmp_path, maxTopicsPerNamespace="6") as web:
        assert web.server.service.settings.max_topics_per_namespace == 5
        assert await web.json(f"{CONFIGURATION}/values") == {"maxTopicsPerNamespace": "5"}


async def test_a_value_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        status, body = await web.call("POST", f"{CONFIGURATION}/allowAutoSubscriptionCreation/notabool")
        assert status == 412
        assert json.loads(body)["reason"] == (
            "Invalid dynamic-config value: allowAutoSubscriptionCreation=notabool: expected true or false"
        )


async def test_bundles_are_unloaded_and_split_by_the_new_settings(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        settings = web.server.service.moves.settings
        await change(web, "namespaceBundleUnloadingTimeoutMs", "1234")
        await change(web, "defaultNamespaceBundleSplitAlgorithm", "topic_count_equally_divide")
        assert settings.namespace_bundle_unloading_timeout_ms == 1234
        assert settings.default_namespace_bundle_split_algorithm == "topic_count_equally_divide"
