"""A client's connection where authentication and authorization are on: what it is told, and what the log says."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import jwt
import pytest

from pulsar_proto.pb import pulsar_api_pb2 as pb
from server.handlers import TABLE
from server.security.authorizer import Authorizer
from server.security.commands import ATTACHED, COMMANDS, HANDSHAKE, NOT_SERVED, guarded
from server.security.demands import Open
from server.security.identity import Identity
from server.security.service import Security
from server.security.settings import SecuritySettings
from server.session import CLIENT_COMMANDS
from tests.server.fakes import Peer, command, make_broker
from tests.server.handler_scene import TOPIC, producer, subscribe

KEY = "k" * 40
"""`data:,` and these characters: the HMAC key."""

PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"


def token(role: str, **claims: Any) -> bytes:
    return jwt.encode({"sub": role, **claims}, KEY.encode(), algorithm="HS256").encode()


class Scene:
    """A broker with the namespace public/default, whose grants a test sets."""

    def __init__(self, **settings: Any) -> None:
        self.grants: dict[str, list[str]] = {}
        self.policies: dict[str, Any] = {}
        self.now_s = 1_000.0
        self.broker = make_broker()
        options: dict[str, Any] = {
            "authentication_enabled": True,
            "authorization_enabled": True,
            "authentication_providers": (PROVIDER,),
            "token_secret_key": f"data:,{KEY}",
            "super_user_roles": ("root", "proxy"),
            "proxy_roles": ("proxy",),
        }
        made = SecuritySettings(**(options | settings))
        self.security = Security(made, self.tenant, self.namespace, now_s=lambda: self.now_s)
        self.broker.security = self.security
        self.broker.commands = self.security.guarded(TABLE)
        self.gate: asyncio.Event | None = None

    async def tenant(self, name: str) -> Mapping[str, Any] | None:
        if self.gate is not None:
            await self.gate.wait()
        return {"adminRoles": ["boss"]} if name == "public" else None

    async def namespace(self, name: str) -> Mapping[str, Any] | None:
        if name != "public/default":
            return None
        return {"auth_policies": {"namespace_auth": dict(self.grants)}, **self.policies}

    async def connect(self, auth_data: bytes = b"", method: str = "token", **fields: Any) -> Peer:
        peer = Peer(self.broker)
        peer.say(connect_command(auth_data, method, **fields))
        return peer

    async def connected(self, role: str, **fields: Any) -> Peer:
        peer = await self.connect(token(role), **fields)
        assert (await peer.answer()).type == pb.BaseCommand.CONNECTED
        return peer


def connect_command(auth_data: bytes, method: str = "token", **fields: Any) -> pb.BaseCommand:
    values = {"client_version": "t", "protocol_version": 20, "auth_data": auth_data, "auth_method_name": method}
    return command("CONNECT", "connect", **(values | fields))


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


def refusal(answer: Any) -> tuple[int, str]:
    """Code and text of whichever kind of answer refuses."""
    for field in ("error", "lookupTopicResponse", "partitionMetadataResponse"):
        if answer.HasField(field):
            body = getattr(answer, field)
            return body.error, body.message
    for field in ("getSchemaResponse", "getOrCreateSchemaResponse"):
        if answer.HasField(field):
            body = getattr(answer, field)
            return body.error_code, body.error_message
    raise AssertionError(answer)


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
        assert {name for name, demand in opened.items() if demand is NOT_SERVED} == transactions
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
        assert scene.security.guarded(TABLE) is TABLE


class TestConnect:
    async def test_a_good_token_gives_its_role(self) -> None:
        peer = await Scene().connected("alice")
        assert str(peer.connection.principal) == "alice"

    @pytest.mark.parametrize(
        "data", [b"", b"nonsense", token("alice", exp=900), jwt.encode({"sub": "a"}, "z" * 40).encode()]
    )
    async def test_a_bad_one_is_refused_and_the_log_says_why_without_it(
        self, data: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        peer = await Scene().connect(data)
        error = (await peer.answer()).error
        assert (error.error, error.message) == (pb.AuthenticationError, "Failed to authenticate")
        assert error.request_id == 2**64 - 1
        assert peer.is_closed
        (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert "not authenticated by method 'token'" in line.getMessage()
        assert not data or data.decode() not in caplog.text

    async def test_a_method_that_is_not_provided_is_anonymous_where_there_is_such_a_role(self) -> None:
        for method in ("none", "", "unknown"):
            peer = await Scene(anonymous_user_role="nobody").connect(b"", method)
            assert (await peer.answer()).type == pb.BaseCommand.CONNECTED
            assert str(peer.connection.principal) == "nobody"
            refused = await Scene().connect(b"", method)
            assert (await refused.answer()).error.error == pb.AuthenticationError

    async def test_nothing_else_is_handled_until_the_credentials_are_judged(self) -> None:
        scene = Scene()
        judging = asyncio.Event()

        class Slow:
            method = "slow"

            async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
                await judging.wait()
                return Identity("root")

        scene.security.authenticator._providers["slow"] = Slow()  # type: ignore[index]
        waiting = await scene.connect(b"", "slow")
        waiting.say(command("PING", "ping"))
        assert (await waiting.answer()).type == pb.BaseCommand.PONG
        judging.set()
        assert (await waiting.answer()).type == pb.BaseCommand.CONNECTED
        judging.clear()
        hasty = await scene.connect(b"", "slow")
        hasty.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1))
        judging.set()
        assert await hasty.answers() == []
        assert hasty.is_closed

    async def test_a_proxy_names_its_client_and_both_are_judged(self) -> None:
        scene = Scene()
        scene.grants["alice"] = ["produce"]
        peer = await scene.connected("proxy", original_principal="alice")
        peer.say(producer())
        assert (await peer.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
        stranger = await scene.connected("proxy", original_principal="stranger")
        stranger.say(producer())
        assert refusal(await stranger.answer())[0] == pb.AuthorizationError

    async def test_one_proxy_connection_looks_up_for_many_clients(self) -> None:
        scene = Scene()
        scene.grants["alice"] = ["produce"]
        peer = await scene.connected("proxy", original_principal="root")
        look = command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1, original_principal="alice")
        peer.say(look)
        assert (await peer.answer()).lookupTopicResponse.response == pb.CommandLookupTopicResponse.Connect
        look.lookupTopic.original_principal = "stranger"
        peer.say(look)
        assert refusal(await peer.answer()) == (pb.AuthorizationError, "Client is not authorized to Lookup")
        look.lookupTopic.original_principal = "proxy"
        peer.say(look)
        assert refusal(await peer.answer()) == (pb.AuthorizationError, "Invalid roles.")

    @pytest.mark.parametrize(
        ("role", "fields", "text"),
        [
            ("proxy", {}, "Invalid roles."),
            ("alice", {"original_principal": "root"}, "Invalid roles."),
            ("alice", {"proxy_version": "1"}, "Must not set proxyVersion without connecting as a ProxyRole."),
        ],
    )
    async def test_a_false_proxy_is_refused(self, role: str, fields: dict[str, str], text: str) -> None:
        peer = await Scene().connect(token(role), **fields)
        error = (await peer.answer()).error
        assert (error.error, error.message) == (pb.AuthorizationError, text)
        assert peer.is_closed

    async def test_the_forwarded_credentials_of_a_proxys_client_are_judged_too(self) -> None:
        scene = Scene(authenticate_original_auth_data=True)
        original = {"original_auth_method": "token", "original_auth_data": token("alice").decode()}
        peer = await scene.connected("proxy", original_principal="root", **original)
        assert str(peer.connection.principal) == "proxy for alice"
        bad = await scene.connect(token("proxy"), **(original | {"original_auth_data": "nonsense"}))
        assert (await bad.answer()).error.error == pb.AuthenticationError


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
        assert not scene.broker.service.topics
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
        """As Apache answers: who is no administrator does not learn which namespaces there are."""
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
        assert not scene.broker.service.topics
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
        assert not scene.broker.service.topics


class TestRefresh:
    async def expired(self, scene: Scene, **fields: Any) -> Peer:
        """A client whose token has expired, a moment after the server looked."""
        features = pb.FeatureFlags(supports_auth_refresh=True)
        peer = await scene.connect(token("alice", exp=1_100), **({"feature_flags": features} | fields))
        assert (await peer.answer()).type == pb.BaseCommand.CONNECTED
        login = peer.connection.login
        assert login is not None
        scene.now_s = 1_101
        login._look()
        return peer

    def response(self, data: bytes) -> pb.BaseCommand:
        auth = pb.AuthData(auth_method_name="token", auth_data=data)
        return command("AUTH_RESPONSE", "authResponse", client_version="t", response=auth, protocol_version=20)

    async def test_an_expired_token_is_asked_for_anew_and_the_connection_stays(self) -> None:
        scene = Scene()
        peer = await self.expired(scene)
        challenge = (await peer.answer()).authChallenge.challenge
        assert (challenge.auth_method_name, challenge.auth_data) == ("token", b"PulsarAuthRefresh")
        peer.say(self.response(token("alice", exp=1_300)))
        assert await peer.answers() == []
        assert not peer.is_closed
        login = peer.connection.login
        assert login is not None
        scene.now_s = 1_200
        login._look()
        assert await peer.answers() == []
        scene.now_s = 1_301
        login._look()
        assert (await peer.answer()).type == pb.BaseCommand.AUTH_CHALLENGE
        login._look()
        assert peer.is_closed

    @pytest.mark.parametrize("data", [b"nonsense", token("bob"), token("alice", exp=1_000)])
    async def test_a_bad_answer_or_another_role_closes(self, data: bytes) -> None:
        peer = await self.expired(Scene())
        await peer.answers()
        peer.say(self.response(data))
        assert (await peer.answer()).error.error == pb.AuthenticationError
        assert peer.is_closed

    async def test_a_client_that_cannot_renew_is_closed(self) -> None:
        peer = await self.expired(Scene(), feature_flags=pb.FeatureFlags())
        assert await peer.answers() == []
        assert peer.is_closed

    async def test_an_answer_that_nothing_asked_for_closes(self) -> None:
        for peer in (await Scene().connected("alice"), Peer(make_broker()).connect()):
            await peer.answers()
            peer.say(self.response(token("alice")))
            assert await peer.answers() == []
            assert peer.is_closed

    async def test_a_closed_connection_has_no_timer_left(self) -> None:
        scene = Scene()
        peer = await self.expired(scene)
        peer.transport.lose()
        login = peer.connection.login
        assert login is not None
        assert login._next_look is None
