"""Chooses the method that checks a peer's credentials, and decides whether a peer without credentials gets in.

Sources: AuthenticationService, AuthenticationFilter, ServerCnx.handleConnect. One thing differs: over HTTP, a peer with
wrong credentials is always refused, whereas Apache's broker lets such a peer in as anonymous if anonymousUserRole is
set.
"""

from collections.abc import Mapping

from magnetar.server.security.principals import Identity
from magnetar.server.security.providers import Provider
from magnetar.server.security.security_errors import RejectedCredentialsError
from magnetar.server.security.tls_provider import METHOD as TLS

METHOD_HEADER = "X-Pulsar-Auth-Method-Name"
AUTHORIZATION_HEADER = "Authorization"

METHOD_CHARACTERS_MAX = 64
"""The number of characters after which the name of a method is cut off in a log line."""

NONE = "none"
"""The method of a client that names no method."""


class Authenticator:
    """Passes credentials to the provider of their method. One object serves all connections and HTTP calls."""

    def __init__(self, providers: Mapping[str, Provider], anonymous_role: str) -> None:
        """`providers` maps the name of each method to its provider. With an empty `anonymous_role` nobody gets in
        without credentials."""
        self._providers = providers
        self._anonymous_role = anonymous_role

    async def of_connect(self, method: str, data: bytes, common_name: str | None) -> Identity:
        """Checks the credentials of CONNECT or AUTH_RESPONSE and returns the peer's identity. A peer whose method has
        no provider counts as a peer without credentials (ServerCnx.handleConnect). Raises RejectedCredentialsError."""
        provider = self._providers.get(method)
        if provider is None:
            return self._anonymous(f"there is no method '{(method or NONE)[:METHOD_CHARACTERS_MAX]}'")
        return await provider.authenticate(data, common_name)

    async def of_http(self, headers: Mapping[str, str], common_name: str | None) -> Identity:
        """Checks the credentials of an HTTP call and returns the caller's identity. If a header names the method, only
        that method is asked; otherwise the Authorization header comes first, then the certificate. Raises
        RejectedCredentialsError."""
        authorization = headers.get(AUTHORIZATION_HEADER, "")
        method = headers.get(METHOD_HEADER, "")
        if method:
            return await self._of_named(method, authorization, common_name)
        if authorization:
            for provider in self._providers.values():
                identity = await provider.authenticate_http(authorization)
                if identity is not None:
                    return identity
            raise RejectedCredentialsError("no method takes this Authorization header")
        if common_name is not None and TLS in self._providers:
            return await self._providers[TLS].authenticate(b"", common_name)
        return self._anonymous("no credentials")

    async def _of_named(self, method: str, authorization: str, common_name: str | None) -> Identity:
        provider = self._providers.get(method)
        if provider is None:
            raise RejectedCredentialsError(f"Unsupported authentication method: [{method[:METHOD_CHARACTERS_MAX]}].")
        if method == TLS:
            return await provider.authenticate(b"", common_name)
        identity = await provider.authenticate_http(authorization)
        if identity is None:
            raise RejectedCredentialsError(f"no credentials of the method {method}")
        return identity

    def _anonymous(self, why: str) -> Identity:
        if not self._anonymous_role:
            raise RejectedCredentialsError(f"{why}, and there is no anonymousUserRole")
        return Identity(self._anonymous_role)
