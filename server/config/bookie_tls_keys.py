"""The keys of broker.conf and of bk_server.conf for TLS between brokers and bookies (`bookie_tls_settings`)."""

from dataclasses import replace

from magnetar.server.config.key_kinds import MAX_INT, Key, any_text, names, switch, whole


def _sets(key: Key, field: str) -> Key:
    return replace(key, fields=(field,))


BROKER_BOOKIE_TLS = (
    _sets(switch("bookkeeperTLSClientAuthentication"), "tls_to_bookies"),
    _sets(any_text("bookkeeperTLSProviderFactoryClass"), "bookie_tls_factory"),
    _sets(any_text("bookkeeperTLSKeyFileType"), "bookie_key_kind"),
    _sets(any_text("bookkeeperTLSTrustCertTypes"), "bookie_trust_kind"),
    _sets(any_text("bookkeeperTLSKeyFilePath"), "bookie_tls_key"),
    _sets(any_text("bookkeeperTLSCertificateFilePath"), "bookie_tls_certificate"),
    _sets(any_text("bookkeeperTLSTrustCertsFilePath"), "bookie_tls_trust"),
    _sets(any_text("bookkeeperTLSKeyStorePasswordPath"), "bookie_tls_key_password_path"),
    _sets(whole("bookkeeperTlsCertFilesRefreshDurationSeconds", 0, MAX_INT, "seconds"), "bookie_tls_refresh_seconds"),
)

BOOKIE_TLS = (
    any_text("tlsProviderFactoryClass"),
    switch("tlsClientAuthentication"),
    any_text("tlsCertificatePath"),
    any_text("tlsKeyStore"),
    any_text("tlsKeyStoreType"),
    any_text("tlsKeyStorePasswordPath"),
    any_text("tlsTrustStore"),
    any_text("tlsTrustStoreType"),
    whole("tlsCertFilesRefreshDurationSeconds", 0, MAX_INT, "seconds"),
    names("tlsEnabledProtocols"),
    names("tlsEnabledCipherSuites"),
    any_text("clientKeyStore"),
    any_text("clientKeyStoreType"),
    any_text("clientKeyStorePasswordPath"),
    any_text("clientTrustStore"),
    any_text("clientTrustStoreType"),
)
