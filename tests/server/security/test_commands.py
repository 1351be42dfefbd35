"""The commands of clients while authorization is on: who may send which, what others are told, and what the log
says."""

import asyncio

import pytest

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.protocol.command_permissions import (
    ATTACHED,
    COMMANDS,
    HANDSHAKE,
    OWN_TRANSACTION,
    SUPERUSERS_ONLY,
    guarded,
)
from magnetar.server.protocol.connection_rules import CLIENT_COMMANDS
from magnetar.server.protocol.handlers.command_table import TABLE, authorized
from magnetar.server.security.authorizer import Authorizer
from magnetar.server.security.demands import Open
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.protocol.handler_scene import TOPIC, producer, subscribe
from tests.server.security.scene import Scene, refusal


def topic_commands(topic: str = TOPIC) -> dict[str, pb.BaseCommand]:
    namespace = topic.partition("://")[2].rpartition("/")[0]
    schema = pb.Schema(name="", schema_data=b"", type=pb.Schema.String)
    return {
        "Client is not authorized to Lookup": command("LOOKUP", "lookupTopic", topic=topic, request_id=1),
        "Client is not authorized to Get Partition Metadata": command(
            "PARTITIONED_METADATA", "partitionMetadata", topic=topic, request_id=1
        ),
        "Client is not authorized to Produce": producer(topic=topic),
        "Client is not authorized to subscribe": subscribe(topic=topic),
        "Client is not authorized to GetTopicsOfNamespace": command(
            "GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace", namespace=namespace, request_id=1
        ),
        "Proxy Client is not authorized to watchTopicList": command(
            "WATCH_TOPIC_LIST",
            "watchTopicList",
            namespace=namespace,
            request_id=1,
            watcher_id=1,
            topics_pattern=".*",
        ),
        "Client is not authorized to get schema": command("GET_SCHEMA", "getSchema", topic=topic, request_id=1),
        "Client is not authorized to create schema": command(
            "GET_OR_CREATE_SCHEMA", "getOrCreateSchema", topic=topic, request_id=1, schema=schema
        ),
    }


class TestDeclarations:
    def test_every_command_that_a_client_may_send_states_what_it_needs(self) -> None:
        assert set(COMMANDS) == CLIENT_COMMANDS | {pb.BaseCommand.CONNECT}
        assert set(TABLE) <= set(COMMANDS)

    def test_a_handler_without_a_declaration_is_impossible(self) -> None:
        undeclared = {**TABLE, 999: TABLE[pb.BaseCommand.PING]}
        authorizer = Authorizer(SecuritySettings(), Scene().tenant, Scene().namespace)
        with pytest.raises(KeyError):
            guarded(undeclared, authorizer)

    def test_only_these_are_open_and_each_says_why(self) -> None:
        names: dict[int, str] = {number: name for name, number in pb.BaseCommand.Type.items()}
        opened = {names[kind]: rule.demand for kind, rule in COMMANDS.items() if isinstance(rule.demand, Open)}
        transactions = {name for name in opened if "TXN" in name or name.startswith("TC_")}
        assert {name for name, demand in opened.items() if demand is SUPERUSERS_ONLY} == {
            "END_TXN_ON_PARTITION",
            "END_TXN_ON_SUBSCRIPTION",
        }
        assert {name for name, demand in opened.items() if demand in (OWN_TRANSACTION, SUPERUSERS_ONLY)} == transactions
        assert {name for name, demand in opened.items() if demand is HANDSHAKE} == {
            "CONNECT",
            "AUTH_RESPONSE",
            "PING",
            "PONG",
        }
        assert {name for name, demand in opened.items() if demand is ATTACHED} == {
            *("SEND", "CLOSE_PRODUCER", "CLOSE_CONSUMER", "UNSUBSCRIBE", "FLOW", "ACK", "SEEK"),
            *("REDELIVER_UNACKNOWLEDGED_MESSAGES", "GET_LAST_MESSAGE_ID", "CONSUMER_STATS", "WATCH_TOPIC_LIST_CLOSE"),
        }
        assert len(opened) == len(transactions) + 4 + 11

    def test_without_authorization_the_table_is_the_plain_one(self) -> None:
        scene = Scene(authorization_enabled=False)
        assert authorized(scene.security) is TABLE


class TestDenied:
    @pytest.mark.parametrize("text", topic_commands())
    async def test_a_stranger_is_told_javas_text_and_the_log_names_what_and_whom(
        self, text: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        scene = Scene()
        peer = await scene.connected("stranger")
        peer.say(topic_commands()[text])
        assert refusal(await peer.answer()) == (pb.AuthorizationError, text)
        assert not peer.is_closed
        assert not scene.traffic.broker.service.topics
        denied = [record.getMessage() for record in caplog.records if "denied" in record.getMessage()]
        assert len(denied) == 1
        assert "to role stranger" in denied[0]
        assert "public/default" in denied[0]

    @pytest.mark.parametrize("text", topic_commands())
    async def test_who_is_granted_it_is_not_refused(self, text: str) -> None:
        for role, grants in (("alice", ["produce", "consume"]), ("root", []), ("boss", [])):
            scene = Scene()
            scene.grants["alice"] = grants
            peer = await scene.connected(role)
            peer.say(topic_commands()[text])
            answer = await peer.answer()
            assert "AuthorizationError" not in str(answer)
            assert "not authorized" not in str(answer)

    async def test_producing_and_consuming_are_granted_apart(self) -> None:
        scene = Scene()
        scene.grants.update(p=["produce"], c=["consume"])
        producing, consuming = await scene.connected("p"), await scene.connected("c")
        for peer, may in ((producing, True), (consuming, False)):
            peer.say(producer())
            assert ((await peer.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS) is may
        for peer, may in ((producing, False), (consuming, True)):
            peer.say(subscribe())
            assert ((await peer.answer()).type == pb.BaseCommand.SUCCESS) is may

    async def test_a_producer_that_makes_a_subscription_must_be_allowed_to_consume(self) -> None:
        scene = Scene()
        scene.grants.update(p=["produce"], both=["produce", "consume"])
        for role, may in (("p", False), ("both", True)):
            peer = await scene.connected(role)
            peer.say(producer(initial_subscription_name="s"))
            assert ((await peer.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS) is may

    async def test_subscriptions_may_be_for_roles_or_by_prefix(self) -> None:
        scene = Scene()
        scene.grants["alice"] = ["consume"]
        scene.policies["subscription_auth_mode"] = "Prefix"
        peer = await scene.connected("alice")
        peer.say(subscribe(subscription="mine"))
        code, text = refusal(await peer.answer())
        assert code == pb.AuthorizationError
        assert "needs to be prefixed by the authentication role, like alice-xxxx" in text
        peer.say(subscribe(subscription="alice-mine"))
        assert (await peer.answer()).type == pb.BaseCommand.SUCCESS

    @pytest.mark.parametrize(
        ("where", "code"),
        [
            ("persistent://nowhere/default/t", pb.TopicNotFound),
            ("persistent://public/nowhere/t", pb.AuthorizationError),
        ],
    )
    async def test_a_missing_tenant_is_not_found_and_a_missing_namespace_grants_nothing(
        self, where: str, code: int
    ) -> None:
        """Only an administrator learns which namespaces there are, as with Apache's broker."""
        peer = await Scene().connected("stranger")
        for sent in topic_commands(where).values():
            peer.say(sent)
            assert refusal(await peer.answer())[0] == code


class TestOrder:
    async def test_a_producer_that_is_closed_while_it_is_judged_is_never_made(self) -> None:
        scene = Scene()
        scene.grants["alice"] = ["produce", "consume"]
        peer = await scene.connected("alice")
        scene.gate = asyncio.Event()
        peer.say(producer(), command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        peer.say(subscribe(request_id=3), command("CLOSE_CONSUMER", "close_consumer", consumer_id=1, request_id=4))
        assert [answer.success.request_id for answer in await peer.answers()] == [2, 4]
        scene.gate.set()
        assert await peer.answers() == []
        assert not scene.traffic.broker.service.topics
        assert not peer.connection.pending_producers
        assert not peer.connection.pending_consumers

    async def test_a_second_request_for_an_id_that_is_being_judged_is_refused(self) -> None:
        scene = Scene()
        scene.grants["alice"] = ["produce"]
        peer = await scene.connected("alice")
        scene.gate = asyncio.Event()
        peer.say(producer(), producer(request_id=2))
        answer = await peer.answer()
        assert (answer.error.request_id, answer.error.error) == (2, pb.ServiceNotReady)
        scene.gate.set()
        assert (await peer.answer()).producer_success.request_id == 1

    async def test_who_is_denied_may_ask_again(self) -> None:
        scene = Scene()
        peer = await scene.connected("alice")
        peer.say(producer())
        assert refusal(await peer.answer())[0] == pb.AuthorizationError
        scene.grants["alice"] = ["produce"]
        peer.say(producer(request_id=2))
        assert (await peer.answer()).producer_success.request_id == 2

    async def test_a_client_that_leaves_while_it_is_judged_leaves_nothing(self) -> None:
        scene = Scene()
        scene.grants["alice"] = ["produce"]
        peer = await scene.connected("alice")
        scene.gate = asyncio.Event()
        peer.say(producer())
        await peer.answers()
        peer.transport.lose()
        scene.gate.set()
        await peer.answers()
        assert not scene.traffic.broker.service.topics
