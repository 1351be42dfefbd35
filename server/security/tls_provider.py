"""The method `tls`: a client's role is the common name of its certificate, which the TLS handshake has verified.

Source: AuthenticationProviderTls.
"""

from collections.abc import Mapping
from typing import Any

from magnetar.server.security.principals import Identity
from magnetar.server.security.security_errors import RejectedCredentialsError

METHOD = "tls"


def common_name_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Returns the most specific common name of a certificate in the form that `SSLObject.getpeercert` gives it; None if
    there is no certificate, or no common name in it."""
    if not certificate:
        return None
    names = [value for parts in certificate.get("subject", ()) for key, value in parts if key == "commonName"]
    return names[-1] if names and names[-1] else None


class TlsProvider:
    """The provider of the method `tls` (`providers.Provider`)."""

    method = METHOD

    async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
        if common_name is None:
            raise RejectedCredentialsError("Client unable to authenticate with TLS certificate")
        return Identity(common_name)

    async def authenticate_http(self, authorization: str) -> Identity | None:
        """Returns None, because no Authorization header belongs to this method."""
        return None
