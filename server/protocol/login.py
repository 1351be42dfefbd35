"""Gives one connection its role by CONNECT, and renews the credential of that role by AUTH_CHALLENGE and AUTH_RESPONSE.

A refused peer gets the text "Failed to authenticate" and nothing else. The log has the reason.

Sources: ServerCnx.handleConnect, completeConnect, handleAuthResponse, refreshAuthenticationCredentials.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.server.security.authentication import NONE
from magnetar.server.security.credential_refresh_rules import CHALLENGE, CredentialRefresh, RefreshStep
from magnetar.server.security.principals import Identity, Principal, combination_fault
from magnetar.server.security.security_errors import RejectedCredentialsError
from magnetar.server.security.tls_provider import common_name_of
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import error_frame, simple_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection
    from magnetar.server.security.security import Security

log = logging.getLogger(__name__)

SECONDS_MAX = 20.0
"""The longest time that judging one credential may take."""


class Login:
    """The login of one connection. Its caller calls `connect` once, then `respond` for each AUTH_RESPONSE, and `close`
    when the connection ends."""

    def __init__(self, cnx: "Connection", security: "Security", server_version: str) -> None:
        self._cnx = cnx
        self._security = security
        self._server_version = server_version
        self._method = NONE
        self._supports_refresh = False
        self._refresh: CredentialRefresh | None = None
        self._next_look: asyncio.TimerHandle | None = None

    async def connect(self, command: pb.CommandConnect, connected: Callable[[], None]) -> None:
        """Judges the credentials of CONNECT. Calls `connected` when the peer has got its role; otherwise refuses the
        peer and closes the connection."""
        self._method = command.auth_method_name or NONE
        self._supports_refresh = command.feature_flags.supports_auth_refresh
        identity = await self._judge(self._method, command.auth_data)
        if identity is None:
            return
        principal = await self._principal(identity.role, command)
        if principal is None or not self._cnx.is_open:
            return
        self._cnx.principal = principal
        log.info("%s: role %s by method %s", self._cnx.remote_address, principal, self._method)
        if identity.expires_at_s is not None:
            may_refresh = self._supports_refresh and not principal.original
            self._refresh = CredentialRefresh(identity.expires_at_s, supports_refresh=may_refresh)
            self._look_later()
        connected()

    async def respond(self, command: pb.CommandAuthResponse) -> None:
        """Judges a renewed credential, and closes the connection if the credential is refused or belongs to another
        role. Raises MalformedFrame for a credential for which no AUTH_CHALLENGE has asked."""
        if self._refresh is None or not self._refresh.is_challenged:
            raise MalformedFrame("AUTH_RESPONSE that nothing asked for")
        identity = await self._judge(command.response.auth_method_name or self._method, command.response.auth_data)
        principal = self._cnx.principal
        if identity is None or principal is None or not self._cnx.is_open:
            return
        if identity.role != principal.role:
            self._reject(f"the role cannot change from {principal.role} to {identity.role} by a renewal")
            return
        log.info("%s: credential of role %s renewed", self._cnx.remote_address, principal)
        if not self._refresh.renewed(identity.expires_at_s):
            self.close()

    def close(self) -> None:
        """Stops checking whether the credential has expired. Has no effect when the credential does not expire."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    async def _judge(self, method: str, data: bytes) -> Identity | None:
        """Returns the identity behind a credential, or None when the peer was refused and the connection closed."""
        common_name = common_name_of(self._cnx.peer_certificate())
        try:
            async with asyncio.timeout(SECONDS_MAX):
                return await self._security.authenticator.of_connect(method, data, common_name)
        except RejectedCredentialsError as error:
            self._reject(str(error))
        except TimeoutError:
            self._reject(f"the credential was not judged in {SECONDS_MAX:g} s")
        except Exception:
            log.exception("%s: a credential of the method %s could not be judged", self._cnx.remote_address, method)
            self._reject("an error of ours, see above")
        return None

    async def _principal(self, role: str, command: pb.CommandConnect) -> Principal | None:
        """Returns the principal of the peer, with the role of the peer's client if the peer is a proxy. Returns None
        when the peer was refused and the connection closed."""
        security = self._security
        original = command.original_principal
        if security.settings.authenticate_original_auth_data and command.original_auth_data:
            identity = await self._judge(command.original_auth_method or NONE, command.original_auth_data.encode())
            if identity is None:
                return None
            original = identity.role
        if security.authorizer is None:
            return Principal(role)
        fault = combination_fault(role, original, security.proxy_roles, may_repeat=False)
        if fault is not None:
            self._deny("Invalid roles.", f"role {role} with original principal {original!r}: {fault}")
            return None
        if command.HasField("proxy_version") and role not in security.proxy_roles:
            text = "Must not set proxyVersion without connecting as a ProxyRole."
            self._deny(text, f"role {role}: {text}")
            return None
        return Principal(role, original)

    def _look_later(self) -> None:
        seconds = self._security.settings.authentication_refresh_check_seconds
        self._next_look = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        assert self._refresh is not None, "only what expires is looked at"
        step = self._refresh.look(self._security.now_s())
        if step is RefreshStep.CLOSE:
            why = "was not renewed" if self._refresh.is_challenged else "expired, and the client cannot renew it"
            self._cnx.close(f"the credential of role {self._cnx.principal} {why}", logging.WARNING)
            return
        if step is RefreshStep.CHALLENGE:
            self._challenge()
        self._look_later()

    def _challenge(self) -> None:
        challenge = pb.CommandAuthChallenge(
            server_version=self._server_version,
            challenge=pb.AuthData(auth_method_name=self._method, auth_data=CHALLENGE),
            protocol_version=self._cnx.protocol_version,
        )
        self._cnx.write(simple_frame(pb.BaseCommand(type=pb.BaseCommand.AUTH_CHALLENGE, authChallenge=challenge)))

    def _reject(self, reason: str) -> None:
        self._end(pb.AuthenticationError, "Failed to authenticate", reason)

    def _deny(self, text: str, reason: str) -> None:
        self._end(pb.AuthorizationError, text, reason)

    def _end(self, code: pb.ServerError.ValueType, text: str, reason: str) -> None:
        self._cnx.write(error_frame(NO_REQUEST_ID, code, text))
        self._cnx.close(f"not authenticated by method {self._method[:64]!r}: {reason}", logging.WARNING)
