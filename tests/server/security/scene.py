"""A broker with authentication and authorization on, clients that connect to it, and how it refuses them."""

import asyncio
from collections.abc import Mapping
from typing import Any

import jwt

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.protocol.handlers.command_table import commands_of
from magnetar.server.security.security import Security
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command, make_traffic

KEY = "k" * 40
"""The HMAC key. The configuration names it as `data:,` and these characters."""

PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"


def token(role: str, **claims: Any) -> bytes:
    return jwt.encode({"sub": role, **claims}, KEY.encode(), algorithm="HS256").encode()


class Scene:
    """A broker with the namespace public/default, whose grants a test sets."""

    def __init__(self, **settings: Any) -> None:
        self.grants: dict[str, list[str]] = {}
        self.policies: dict[str, Any] = {}
        self.now_s = 1_000.0
        self.traffic = make_traffic()
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
        self.traffic.broker.security = self.security
        self.commands = commands_of(self.security)
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
        peer = Peer(self.traffic, commands=self.commands)
        peer.say(connect_command(auth_data, method, **fields))
        return peer

    async def connected(self, role: str, **fields: Any) -> Peer:
        peer = await self.connect(token(role), **fields)
        assert (await peer.answer()).type == pb.BaseCommand.CONNECTED
        return peer


def connect_command(auth_data: bytes, method: str = "token", **fields: Any) -> pb.BaseCommand:
    values = {"client_version": "t", "protocol_version": 20, "auth_data": auth_data, "auth_method_name": method}
    return command("CONNECT", "connect", **(values | fields))


def refusal(answer: Any) -> tuple[int, str]:
    """Returns code and text of a refusal, whichever kind of answer it is."""
    for field in ("error", "lookupTopicResponse", "partitionMetadataResponse"):
        if answer.HasField(field):
            body = getattr(answer, field)
            return body.error, body.message
    for field in ("getSchemaResponse", "getOrCreateSchemaResponse"):
        if answer.HasField(field):
            body = getattr(answer, field)
            return body.error_code, body.error_message
    raise AssertionError(answer)
