"""How a client says who it is: with CONNECT, through a proxy, and again when its credentials expire."""

import asyncio
import logging
from typing import Any

import jwt
import pytest

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.principals import Identity
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command, make_traffic
from tests.server.protocol.handler_scene import TOPIC, producer
from tests.server.security.scene import Scene, refusal, token


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

    @pytest.mark.parametrize("claims", [{"exp": 10**400}, {"nbf": -(10**400)}, {"exp": float("nan")}])
    async def test_a_token_with_an_impossible_time_is_answered(self, claims: dict[str, Any]) -> None:
        peer = await Scene().connect(token("alice", **claims))
        error = (await peer.answer()).error
        assert (error.error, error.message) == (pb.AuthenticationError, "Failed to authenticate")
        assert peer.is_closed

    async def test_a_method_that_fails_is_answered(self, caplog: pytest.LogCaptureFixture) -> None:
        class Broken:
            method = "broken"

            async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
                raise OverflowError("secret")

        scene = Scene()
        scene.security.authenticator._providers["broken"] = Broken()  # type: ignore[index]
        peer = await scene.connect(b"", "broken")
        error = (await peer.answer()).error
        assert (error.error, error.message) == (pb.AuthenticationError, "Failed to authenticate")
        assert peer.is_closed
        assert "could not be judged" in caplog.text

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


class TestRefresh:
    async def expired(self, scene: Scene, **fields: Any) -> Peer:
        """Returns a client whose token has expired a moment after the server looked at it."""
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
        for peer in (await Scene().connected("alice"), Peer(make_traffic()).connect()):
            await peer.answers()
            peer.say(self.response(token("alice")))
            assert await peer.answers() == []
            assert peer.is_closed

    async def test_a_closed_connection_has_no_timer_left(self) -> None:
        scene = Scene()
        peer = await self.expired(scene)
        login = peer.connection.login
        assert login is not None
        peer.transport.lose()
        assert login._next_look is None


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"authentication_enabled": True}, "lets nobody in"),
        ({"authorization_enabled": True}, "needs authentication_enabled"),
        ({"token_audience_claim": "aud"}, "needs token_audience"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(keys: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SecuritySettings(**keys)
