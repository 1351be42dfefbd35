"""The authentication methods by the Java class names under which broker.conf knows them.

A method's module is imported when it is configured: what it needs (cryptography, password hashes) costs an idle server
nothing.
"""

from collections.abc import Callable
from typing import Protocol

from server.security.errors import SecurityConfigError
from server.security.identity import Identity
from server.security.settings import SecuritySettings

PACKAGE = "org.apache.pulsar.broker.authentication."


class Provider(Protocol):
    """One authentication method."""

    method: str

    async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
        """From CONNECT's or AUTH_RESPONSE's data and the client certificate's common name, if there is a verified one.
        Raises RejectedCredentialsError."""

    async def authenticate_http(self, authorization: str) -> Identity | None:
        """From an Authorization header; None: it is not this method's. Raises RejectedCredentialsError."""


def _token(settings: SecuritySettings, now_s: Callable[[], float]) -> Provider:
    from server.security.token import TokenProvider

    return TokenProvider.make(settings, now_s)


def _basic(settings: SecuritySettings, now_s: Callable[[], float]) -> Provider:
    from server.security.basic import BasicProvider

    return BasicProvider.make(settings)


def _tls(settings: SecuritySettings, now_s: Callable[[], float]) -> Provider:
    from server.security.tls_role import TlsProvider

    return TlsProvider()


PROVIDERS: dict[str, Callable[[SecuritySettings, Callable[[], float]], Provider]] = {
    f"{PACKAGE}AuthenticationProviderToken": _token,
    f"{PACKAGE}AuthenticationProviderBasic": _basic,
    f"{PACKAGE}AuthenticationProviderTls": _tls,
}


def make_providers(settings: SecuritySettings, now_s: Callable[[], float]) -> dict[str, Provider]:
    """By method, in the configured order. `now_s`: Unix time. Raises SecurityConfigError."""
    providers: dict[str, Provider] = {}
    for name in settings.authentication_providers:
        make = PROVIDERS.get(name)
        if make is None:
            known = ", ".join(PROVIDERS)
            raise SecurityConfigError(f"authenticationProviders: there is no {name} here; there are {known}")
        provider = make(settings, now_s)
        providers[provider.method] = provider
    return providers
