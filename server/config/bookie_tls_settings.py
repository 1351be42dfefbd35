"""TLS between brokers and bookies: the certificates of a ledger client, and those of a bookie.

A client and a bookie agree on TLS by START_TLS on a connection in the clear. Sources: BookKeeperClientFactoryImpl of
Apache's broker (the keys bookkeeperTLS…), TLSContextFactory, ServerConfiguration and ClientConfiguration of BookKeeper.
"""

from dataclasses import dataclass

PEM = "PEM"
JAVA_FACTORY = "org.apache.bookkeeper.tls.TLSContextFactory"
"""The one class of Apache's that makes TLS for connections between clients and bookies."""


def _check_pem(key: str, field: str, kind: str) -> None:
    """Raises ValueError for a key store of Java's. `field` lets the configuration find the place of the key."""
    if kind.upper() != PEM:
        raise ValueError(f"{field}: {key}={kind} is a kind of key store that this version does not read: PEM files are")


def _check_factory(key: str, field: str, name: str) -> None:
    if name != JAVA_FACTORY:
        raise ValueError(f"{field}: {key}={name}: classes of Java are not loaded; {JAVA_FACTORY} stands for TLS")


@dataclass(frozen=True, slots=True)
class BrokerBookieTls:
    """The keys of broker.conf for TLS to the bookies. Raises ValueError, which names a field, when TLS is on and a key
    that it needs is missing or names a kind of file that is not read."""

    tls_to_bookies: bool = False
    """bookkeeperTLSClientAuthentication: whether the broker speaks TLS with the bookies, and shows its certificate."""
    bookie_tls_factory: str = JAVA_FACTORY
    """The Java class that stands for TLS; no other is accepted."""
    bookie_key_kind: str = PEM
    """The kind of the files with the broker's certificate and key; PEM only."""
    bookie_trust_kind: str = PEM
    """The kind of the file with the authorities; PEM only."""
    bookie_tls_key: str = ""
    """A PEM file with the broker's private key."""
    bookie_tls_certificate: str = ""
    """A PEM file with the broker's certificate."""
    bookie_tls_trust: str = ""
    """A PEM file with the authorities that bookies' certificates come from."""
    bookie_tls_key_password_path: str = ""
    """A file with the password of an encrypted key."""
    bookie_tls_refresh_seconds: int = 300
    """After how many seconds a connect looks whether the files have changed; 0 means that it never looks."""

    def __post_init__(self) -> None:
        if not self.tls_to_bookies:
            return
        _check_factory("bookkeeperTLSProviderFactoryClass", "bookie_tls_factory", self.bookie_tls_factory)
        _check_pem("bookkeeperTLSKeyFileType", "bookie_key_kind", self.bookie_key_kind)
        _check_pem("bookkeeperTLSTrustCertTypes", "bookie_trust_kind", self.bookie_trust_kind)
        for field, key in (
            ("bookie_tls_certificate", "bookkeeperTLSCertificateFilePath"),
            ("bookie_tls_key", "bookkeeperTLSKeyFilePath"),
            ("bookie_tls_trust", "bookkeeperTLSTrustCertsFilePath"),
        ):
            if not getattr(self, field):
                raise ValueError(f"tls_to_bookies: bookkeeperTLSClientAuthentication=true needs {key}")


@dataclass(frozen=True, slots=True)
class BookieTls:
    """The keys of bk_server.conf for TLS: of the bookie's port, and of the clients in the same process (auto-recovery,
    the tools of `magnetar bk`). Raises ValueError, which names a field."""

    tls_provider_factory_class: str = ""
    """TLS is on if this names BookKeeper's TLSContextFactory."""
    tls_client_authentication: bool = False
    """Whether a client that speaks TLS has to show a certificate, and whether clients of this process show theirs."""
    tls_certificate_path: str = ""
    """A PEM file with the bookie's certificate."""
    tls_key_store: str = ""
    """A PEM file with the bookie's private key."""
    tls_key_store_type: str = "JKS"
    """The default is BookKeeper's, so the configuration of a bookie with PEM files has to set this key."""
    tls_key_store_password_path: str = ""
    """A file with the password of an encrypted key."""
    tls_trust_store: str = ""
    """A PEM file with the authorities whose clients' certificates are accepted."""
    tls_trust_store_type: str = "JKS"
    """The kind of `tls_trust_store`; only PEM is read."""
    tls_cert_files_refresh_duration_seconds: int = 0
    """After how many seconds a connection looks whether the files have changed; 0 means that it never looks."""
    tls_enabled_protocols: tuple[str, ...] = ()
    """The TLS versions; if this is empty, TLSv1.3 and TLSv1.2 are spoken."""
    tls_enabled_cipher_suites: tuple[str, ...] = ()
    """The ciphers; if this is empty, Python chooses."""
    client_key_store: str = ""
    """A PEM file with the private key of this process's own clients: auto-recovery and tools."""
    client_key_store_type: str = "JKS"
    """The kind of `client_key_store`; only PEM is read."""
    client_key_store_password_path: str = ""
    """A file with the password of that key."""
    client_trust_store: str = ""
    """A PEM file with the authorities that bookies' certificates come from. Clients of this process speak TLS if it
    is set."""
    client_trust_store_type: str = "JKS"
    """The kind of `client_trust_store`; only PEM is read."""

    @property
    def is_on(self) -> bool:
        return self.tls_provider_factory_class not in ("", "null")

    @property
    def clients_speak_tls(self) -> bool:
        """Whether the clients of this process speak TLS: TLS must be on, and clientTrustStore must be set. BookKeeper's
        clients speak TLS whenever it is on, and fail without a clientTrustStore."""
        return self.is_on and bool(self.client_trust_store)

    def __post_init__(self) -> None:
        if not self.is_on:
            return
        _check_factory("tlsProviderFactoryClass", "tls_provider_factory_class", self.tls_provider_factory_class)
        _check_pem("tlsKeyStoreType", "tls_key_store_type", self.tls_key_store_type)
        needed = {"tls_certificate_path": "tlsCertificatePath", "tls_key_store": "tlsKeyStore"}
        if self.tls_client_authentication:
            _check_pem("tlsTrustStoreType", "tls_trust_store_type", self.tls_trust_store_type)
            needed["tls_trust_store"] = "tlsTrustStore"
        for field, key in needed.items():
            if not getattr(self, field):
                raise ValueError(f"tls_provider_factory_class: TLS needs {key}")
        if self.clients_speak_tls:
            _check_pem("clientTrustStoreType", "client_trust_store_type", self.client_trust_store_type)
            if self.tls_client_authentication:
                _check_pem("clientKeyStoreType", "client_key_store_type", self.client_key_store_type)
                if not self.client_key_store:
                    raise ValueError("tls_client_authentication: clients of this process need clientKeyStore")
