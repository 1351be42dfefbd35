"""The answers to LOOKUP, topic lists, schemas and the rest have the codes and texts of a Java broker."""

import asyncio
from typing import Any

import pytest

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.broker_addresses import addresses_of
from magnetar.server.network.advertised_listeners import AdvertisedListeners, ListenerSettings
from magnetar.server.network.ports import Urls
from magnetar.server.protocol.handlers.schema import ANSWER_DELAY_S, FIRST_VERSION_THAT_KEEPS_ANSWERS
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import TOPIC, connected, producing


class TestLookup:
    async def test_the_owner_is_this_broker(self) -> None:
        peer = await connected()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=2, advertised_listener_name=""))
        assert (await peer.answer()).lookupTopicResponse == pb.CommandLookupTopicResponse(
            brokerServiceUrl="pulsar://127.0.0.1:6650",
            response=pb.CommandLookupTopicResponse.Connect,
            request_id=2,
            authoritative=True,
            proxy_through_service_url=True,
        )

    @pytest.mark.parametrize(
        ("values", "code", "text"),
        [
            ({"topic": "persistent://public/nons/x"}, pb.TopicNotFound, "Namespace not found"),
            (
                {"topic": "bad://x//y"},
                pb.InvalidTopicName,
                "Invalid topic name: Invalid topic domain: 'bad' of 'bad://x//y'",
            ),
            (
                {"topic": TOPIC, "advertised_listener_name": "nope"},
                pb.ServiceNotReady,
                "the broker do not have nope listener",
            ),
        ],
    )
    async def test_lookups_that_fail(self, values: dict[str, str], code: int, text: str) -> None:
        peer = await connected()
        peer.say(command("LOOKUP", "lookupTopic", request_id=4, **values))
        answer = (await peer.answer()).lookupTopicResponse
        assert answer.response == pb.CommandLookupTopicResponse.Failed
        assert (answer.request_id, answer.error, answer.message) == (4, code, text)

    async def test_lookups_of_all_connections_are_bounded(self) -> None:
        traffic = make_traffic(max_concurrent_lookup_request=1)
        traffic.broker.service.gate = asyncio.Event()
        first, second = await connected(traffic), await connected(traffic)
        made = command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=4)
        first.say(made)
        await settle()
        second.say(made)
        assert (await second.answer()).lookupTopicResponse.error == pb.TooManyRequests
        traffic.broker.service.gate.set()
        assert (await first.answer()).lookupTopicResponse.response == pb.CommandLookupTopicResponse.Connect
        second.say(made)
        assert (await second.answer()).lookupTopicResponse.response == pb.CommandLookupTopicResponse.Connect

    @pytest.mark.parametrize(
        ("kind", "body"), [("GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace"), ("WATCH_TOPIC_LIST", "watchTopicList")]
    )
    async def test_lists_of_topics_are_bounded_with_the_lookups(self, kind: str, body: str) -> None:
        traffic = make_traffic(max_concurrent_lookup_request=1)
        peer = await connected(traffic)
        asked = {"request_id": 4, "namespace": "public/default"}
        if kind == "WATCH_TOPIC_LIST":
            asked |= {"watcher_id": 1, "topics_pattern": ".*"}
        with traffic.broker.lookup_permit():
            peer.say(command(kind, body, **asked))
            refused = (await peer.answer()).error
        assert (refused.request_id, refused.error) == (4, pb.TooManyRequests)
        assert refused.message == "Failed due to too many pending lookup requests"
        assert not peer.connection.topic_watchers


class TestPartitionedMetadata:
    @pytest.mark.parametrize(
        ("topic", "may_create", "expected"),
        [
            ("partitioned", True, 3),
            ("stored", False, 0),
            ("missing", True, 0),
        ],
    )
    async def test_counts(self, topic: str, may_create: bool, expected: int) -> None:
        traffic = make_traffic()
        traffic.broker.service.partitions["persistent://public/default/partitioned"] = 3
        traffic.broker.service.stored.add("persistent://public/default/stored")
        peer = await connected(traffic)
        peer.say(
            command(
                "PARTITIONED_METADATA",
                "partitionMetadata",
                topic=topic,
                request_id=1,
                metadata_auto_creation_enabled=may_create,
            )
        )
        answer = (await peer.answer()).partitionMetadataResponse
        assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Success
        assert answer.partitions == expected
        assert traffic.broker.service.topics == {}, "nothing is created by asking"

    @pytest.mark.parametrize(
        ("topic", "code", "text"),
        [
            ("persistent://public/default/nope", pb.TopicNotFound, None),
            ("bad://x//y", pb.InvalidTopicName, "Invalid topic name: Invalid topic domain: 'bad' of 'bad://x//y'"),
            ("persistent://public/nons/x", pb.TopicNotFound, "Namespace not found"),
        ],
    )
    async def test_failures(self, topic: str, code: int, text: str | None) -> None:
        peer = await connected()
        peer.say(
            command(
                "PARTITIONED_METADATA",
                "partitionMetadata",
                topic=topic,
                request_id=1,
                metadata_auto_creation_enabled=False,
            )
        )
        answer = (await peer.answer()).partitionMetadataResponse
        assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed
        assert answer.error == code
        assert text in (None, answer.message)

    async def test_without_automatic_creation_a_missing_topic_is_not_found(self) -> None:
        traffic = make_traffic()
        traffic.broker.service.settings = TopicSettings(allow_auto_topic_creation=False)
        peer = await connected(traffic)
        peer.say(command("PARTITIONED_METADATA", "partitionMetadata", topic="missing", request_id=1))
        assert (await peer.answer()).partitionMetadataResponse.error == pb.TopicNotFound


class TestTopicsOfNamespace:
    PARTS = tuple(f"persistent://public/default/parts-partition-{index}" for index in range(3))

    async def ask(self, topics: set[str], **values: Any) -> pb.CommandGetTopicsOfNamespaceResponse:
        traffic = make_traffic()
        traffic.broker.service.stored |= topics
        peer = await connected(traffic)
        values = {"request_id": 1, "namespace": "public/default", **values}
        peer.say(command("GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace", **values))
        return (await peer.answer()).getTopicsOfNamespaceResponse

    async def test_a_pattern_filters_and_the_hash_is_the_captured_one(self) -> None:
        other = "persistent://public/default/other"
        answer = await self.ask({*self.PARTS, other}, topics_pattern="persistent://public/default/parts.*")
        assert tuple(answer.topics) == self.PARTS
        assert (answer.filtered, answer.topics_hash, answer.changed) == (True, "a6b6622d", True)

    async def test_the_same_hash_sends_no_names(self) -> None:
        answer = await self.ask(
            set(self.PARTS), topics_pattern="persistent://public/default/parts.*", topics_hash="a6b6622d"
        )
        assert (list(answer.topics), answer.filtered, answer.topics_hash, answer.changed) == (
            [],
            True,
            "a6b6622d",
            False,
        )

    async def test_without_a_pattern_everything_but_system_topics_is_listed(self) -> None:
        answer = await self.ask({"persistent://public/default/__change_events", "persistent://public/default/__mine"})
        assert list(answer.topics) == ["persistent://public/default/__mine"]
        assert not answer.filtered

    @pytest.mark.parametrize(
        ("mode", "listed"),
        [
            (pb.CommandGetTopicsOfNamespace.PERSISTENT, ["persistent://public/default/a"]),
            (pb.CommandGetTopicsOfNamespace.NON_PERSISTENT, ["non-persistent://public/default/b"]),
            (
                pb.CommandGetTopicsOfNamespace.ALL,
                ["non-persistent://public/default/b", "persistent://public/default/a"],
            ),
        ],
    )
    async def test_modes(self, mode: int, listed: list[str]) -> None:
        answer = await self.ask({"persistent://public/default/a", "non-persistent://public/default/b"}, mode=mode)
        assert list(answer.topics) == listed


async def test_a_listener_that_is_named_has_an_address_of_its_own() -> None:
    traffic = make_traffic()
    settings = ListenerSettings(("inside:pulsar://broker:6650", "outside:pulsar+ssl://example.org:30651"))
    listeners = AdvertisedListeners(Urls("pulsar://127.0.0.1:6650"), settings)
    traffic.broker.ownership.addresses = addresses_of(listeners.internal, listeners.named)
    peer = Peer(traffic).connect()
    await peer.answers()
    given = []
    for name in ("", "outside", "nowhere"):
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=2, advertised_listener_name=name))
        given.append((await peer.answer()).lookupTopicResponse)
    assert [(each.brokerServiceUrl, each.brokerServiceUrlTls, each.proxy_through_service_url) for each in given] == [
        ("pulsar://broker:6650", "", False),
        ("", "pulsar+ssl://example.org:30651", False),
        ("", "", False),
    ]
    assert (given[2].error, given[2].message) == (pb.ServiceNotReady, "the broker do not have nowhere listener")


async def test_a_client_is_sent_to_the_listener_of_its_bind_address_unless_it_names_one() -> None:
    traffic = make_traffic()
    settings = ListenerSettings(("inside:pulsar://broker:6650", "outside:pulsar://example.org:30650"))
    listeners = AdvertisedListeners(Urls("pulsar://127.0.0.1:6650"), settings)
    traffic.broker.ownership.addresses = addresses_of(listeners.internal, listeners.named)
    given = []
    for came_in_by, named in (("", ""), ("outside", ""), ("outside", "  "), ("outside", "inside"), ("nowhere", "")):
        peer = Peer(traffic, listener_name=came_in_by).connect()
        await peer.answers()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=2, advertised_listener_name=named))
        given.append((await peer.answer()).lookupTopicResponse)
    assert [each.brokerServiceUrl for each in given] == [
        "pulsar://broker:6650",
        "pulsar://example.org:30650",
        "pulsar://example.org:30650",
        "pulsar://broker:6650",
        "",
    ]
    assert (given[4].error, given[4].message) == (pb.ServiceNotReady, "the broker do not have nowhere listener")


class TestSchemasAndTheRest:
    async def test_a_topic_without_schema(self) -> None:
        peer = await connected()
        peer.say(command("GET_SCHEMA", "getSchema", request_id=26, topic="persistent://public/default/schem"))
        answer = (await peer.answer()).getSchemaResponse
        assert (answer.request_id, answer.error_code, answer.error_message) == (
            26,
            pb.TopicNotFound,
            "Topic not found or no-schema persistent://public/default/schem",
        )

    @pytest.mark.parametrize(
        ("kind", "body"), [("GET_SCHEMA", "getSchema"), ("GET_OR_CREATE_SCHEMA", "getOrCreateSchema")]
    )
    async def test_a_client_that_may_lose_a_quick_answer_gets_it_later(self, kind: str, body: str) -> None:
        """See FIRST_VERSION_THAT_KEEPS_ANSWERS."""
        peer = Peer(make_traffic()).connect(version=FIRST_VERSION_THAT_KEEPS_ANSWERS - 1)
        await peer.answers()
        schema = {"schema": pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)} if "Create" in body else {}
        loop = asyncio.get_running_loop()
        asked = loop.time()
        peer.say(command(kind, body, request_id=26, topic="persistent://public/default/schem", **schema))
        async with asyncio.timeout(60):
            while not (answers := await peer.answers()):
                pass
        assert loop.time() - asked >= ANSWER_DELAY_S
        assert getattr(answers[0], f"{body}Response").request_id == 26

    async def test_an_empty_schema_version(self) -> None:
        peer = await connected()
        peer.say(command("GET_SCHEMA", "getSchema", request_id=26, topic=TOPIC, schema_version=b""))
        assert (await peer.answer()).getSchemaResponse.error_code == pb.IncompatibleSchema

    async def test_get_or_create_schema(self) -> None:
        peer, _ = await producing()
        schema = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
        given = []
        for topic in (TOPIC, "persistent://public/default/notloaded"):
            peer.say(command("GET_OR_CREATE_SCHEMA", "getOrCreateSchema", request_id=31, topic=topic, schema=schema))
            given.append((await peer.answer()).getOrCreateSchemaResponse)
        loaded, missing = given
        assert (loaded.schema_version, loaded.HasField("error_code")) == (bytes(8), False)
        assert (missing.error_code, missing.error_message) == (
            pb.TopicNotFound,
            "Topic not found persistent://public/default/notloaded",
        )

    async def test_get_or_create_schema_of_bytes_makes_none(self) -> None:
        """Apache 4.0.7 does the same, unlike in PRODUCER."""
        peer, _ = await producing()
        none = pb.Schema(name="s", schema_data=b"", type=getattr(pb.Schema, "None"))
        peer.say(command("GET_OR_CREATE_SCHEMA", "getOrCreateSchema", request_id=31, topic=TOPIC, schema=none))
        given = (await peer.answer()).getOrCreateSchemaResponse
        assert (given.schema_version, given.HasField("error_code")) == (b"", False)
        peer.say(command("GET_SCHEMA", "getSchema", request_id=32, topic=TOPIC))
        assert (await peer.answer()).getSchemaResponse.error_code == pb.TopicNotFound

    @pytest.mark.parametrize(
        ("kind", "field", "values"),
        [
            ("NEW_TXN", "newTxn", {}),
            ("ADD_PARTITION_TO_TXN", "addPartitionToTxn", {}),
            ("ADD_SUBSCRIPTION_TO_TXN", "addSubscriptionToTxn", {}),
            ("END_TXN", "endTxn", {}),
            ("END_TXN_ON_PARTITION", "endTxnOnPartition", {}),
            ("END_TXN_ON_SUBSCRIPTION", "endTxnOnSubscription", {}),
            ("TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest", {"tc_id": 0}),
        ],
    )
    async def test_transactions_are_not_enabled(self, kind: str, field: str, values: dict[str, int]) -> None:
        peer = await connected()
        peer.say(command(kind, field, request_id=34, **values))
        answer = (await peer.answer()).error
        assert (answer.request_id, answer.error, answer.message) == (
            34,
            pb.NotAllowedError,
            "Transactions are not enabled.",
        )

    async def test_topic_watchers_are_refused_where_they_are_switched_off(self) -> None:
        peer = await connected(make_traffic(enable_broker_topic_list_watcher=False))
        asked = {"request_id": 1, "watcher_id": 1, "namespace": "public/default", "topics_pattern": "a"}
        peer.say(command("WATCH_TOPIC_LIST", "watchTopicList", **asked))
        (refused,) = await peer.answers()
        assert (refused.error.request_id, refused.error.error) == (1, pb.NotAllowedError)
