"""The authentication methods, by the names of Java classes that broker.conf uses for them.

The module of a method is imported only if the method is configured, since cryptography and password hashes cost memory.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.principals import Identity
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError

PACKAGE = "org.apache.pulsar.broker.authentication."


IdentityT = TypeVar("IdentityT", Identity, Identity | None)


class Provider(Protocol):
    """The interface of an authentication method."""

    method: str

    async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
        """Checks the data of CONNECT or AUTH_RESPONSE and returns the peer's identity. `common_name` is the common name
        of the client's certificate, if the TLS handshake has verified a certificate. Raises
        RejectedCredentialsError."""

    async def authenticate_http(self, authorization: str) -> Identity | None:
        """Checks an Authorization header and returns the peer's identity, or None for a header of another method.
        Raises RejectedCredentialsError."""


class CountedProvider:
    """A provider that passes all calls to another provider, and counts for /metrics how often the other provider
    accepts and rejects credentials."""

    __slots__ = ("_provider", "accepted", "method", "name", "rejected")

    def __init__(self, provider: Provider, name: str) -> None:
        """`name` is the name of the Java class without its package."""
        self._provider = provider
        self.method = provider.method
        self.name = name
        self.accepted = 0
        self.rejected = 0

    async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
        return await self._count(self._provider.authenticate(data, common_name))

    async def authenticate_http(self, authorization: str) -> Identity | None:
        return await self._count(self._provider.authenticate_http(authorization))

    async def _count(self, judgement: Awaitable[IdentityT]) -> IdentityT:
        try:
            identity = await judgement
        except RejectedCredentialsError:
            self.rejected += 1
            raise
        self.accepted += identity is not None
        return identity


def _token(settings: SecuritySettings, now_s: Callable[[], float]) -> Provider:
    from magnetar.server.security.token_provider import TokenProvider

    return TokenProvider.make(settings, now_s)


def _basic(settings: SecuritySettings, now_s: Callable[[], float]) -> Provider:
    from magnetar.server.security.basic_provider import BasicProvider

    return BasicProvider.make(settings)


def _tls(settings: SecuritySettings, now_s: Callable[[], float]) -> Provider:
    from magnetar.server.security.tls_provider import TlsProvider

    return TlsProvider()


PROVIDERS: dict[str, Callable[[SecuritySettings, Callable[[], float]], Provider]] = {
    f"{PACKAGE}AuthenticationProviderToken": _token,
    f"{PACKAGE}AuthenticationProviderBasic": _basic,
    f"{PACKAGE}AuthenticationProviderTls": _tls,
}


def make_providers(settings: SecuritySettings, now_s: Callable[[], float]) -> dict[str, CountedProvider]:
    """Returns the configured providers by the names of their methods, in the configured order. `now_s` returns Unix
    time. Raises SecurityConfigError."""
    providers: dict[str, CountedProvider] = {}
    for name in settings.authentication_providers:
        make = PROVIDERS.get(name)
        if make is None:
            known = ", ".join(PROVIDERS)
            raise SecurityConfigError(f"authenticationProviders: there is no {name} here; there are {known}")
        provider = make(settings, now_s)
        providers[provider.method] = CountedProvider(provider, name.removeprefix(PACKAGE))
    return providers
