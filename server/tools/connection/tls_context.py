"""The TLS context of a connection: which servers are trusted, and the client's certificate."""

import ssl

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
from magnetar.server.tools.connection.server_trust import trusting_context
from magnetar.server.tools.connection.settings import ConnectionSettings


def tls_context(settings: ConnectionSettings) -> ssl.SSLContext:
    """Returns the context for TLS 1.2 and later. As with Java's tools, a certificate's host name is compared only when
    tlsEnableHostnameVerification is set. Raises ConnectionSettingsError for a file that cannot be used."""
    tls, credentials = settings.tls, settings.credentials
    try:
        context = trusting_context(tls.trust_certs)
    except (OSError, ssl.SSLError) as error:
        raise ConnectionSettingsError(f"tlsTrustCertsFilePath: {tls.trust_certs}: {error}") from None
    context.check_hostname = tls.verify_hostname and not tls.allow_insecure
    if tls.allow_insecure:
        context.verify_mode = ssl.CERT_NONE
    if credentials.client_certificate:
        try:
            context.load_cert_chain(credentials.client_certificate, credentials.client_key)
        except (OSError, ssl.SSLError) as error:
            names = f"{credentials.client_certificate}, {credentials.client_key}"
            raise ConnectionSettingsError(f"the client's certificate and key ({names}): {error}") from None
    return context
