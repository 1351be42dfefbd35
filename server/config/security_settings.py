"""The configuration keys of authentication, authorization and TLS, as settings classes.

The fields are the snake_case of broker.conf's keys (ServiceConfiguration). Secrets are kept out of `repr`, so that no
log line shows them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The settings of authentication and authorization. Raises ValueError when they contradict each other."""

    authentication_enabled: bool = False
    authentication_providers: tuple[str, ...] = ()
    """Names of Java classes; `providers.PROVIDERS` lists those that exist here."""
    authentication_refresh_check_seconds: int = 60
    """The interval at which expired credentials are looked for. A peer that is asked for new ones has until the next
    look."""
    anonymous_user_role: str = ""
    """The role of clients that show no credentials, or credentials of a method that is not provided. If it is empty,
    such clients are refused."""
    authenticate_original_auth_data: bool = False
    """Whether the credentials that a proxy forwards from its client are checked here too."""
    authenticate_metrics_endpoint: bool = False
    """Whether /metrics asks for credentials."""
    authorization_enabled: bool = False
    authorization_provider: str = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"
    authorization_allow_wildcards_matching: bool = False
    super_user_roles: tuple[str, ...] = ()
    proxy_roles: tuple[str, ...] = ()
    token_secret_key: str = field(default="", repr=False)
    """Where the HMAC key is, in one of the spellings that `keys.read_content` takes."""
    token_public_key: str = field(default="", repr=False)
    token_public_alg: str = "RS256"
    token_auth_claim: str = "sub"
    """The claim that holds the role. If the claim is an array, its first item is the role."""
    token_audience_claim: str = ""
    token_audience: str = ""
    token_allowed_clock_skew_seconds: int = 0
    basic_auth_conf: str = field(default="", repr=False)
    """The path of a `.htpasswd` file, or the content of one as a `data:` URL or in base64."""

    def __post_init__(self) -> None:
        if self.authentication_enabled and not self.authentication_providers and not self.anonymous_user_role:
            raise ValueError(
                "authentication_enabled without authentication_providers or anonymous_user_role lets nobody in"
            )
        if self.authorization_enabled and not self.authentication_enabled:
            raise ValueError("authorization_enabled needs authentication_enabled: nobody has a role without it")
        if self.token_audience_claim and not self.token_audience:
            raise ValueError("token_audience_claim needs token_audience")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The server's certificates, and how clients' certificates are checked. Raises ValueError when settings contradict
    each other."""

    tls_certificate_file_path: str = ""
    """A PEM file with the server's certificate, followed by those between it and its authority."""
    tls_key_file_path: str = ""
    """A PEM file with the private key, which must not be encrypted."""
    tls_trust_certs_file_path: str = ""
    """A PEM file with the authorities whose clients' certificates are accepted."""
    tls_allow_insecure_connection: bool = False
    """If this is set, Apache takes any client certificate unchecked. Here clients are then not asked for one, because
    an unchecked certificate proves nothing."""
    tls_require_trusted_client_cert_on_connect: bool = False
    tls_protocols: tuple[str, ...] = ()
    """Protocol versions as JSSE names them. If empty, TLSv1.3 and TLSv1.2 are spoken."""
    tls_ciphers: tuple[str, ...] = ()
    """Ciphers as JSSE or OpenSSL names them. If empty, Python chooses. The ciphers of TLS 1.3 cannot be chosen."""
    web_service_tls_protocols: tuple[str, ...] = ()
    web_service_tls_ciphers: tuple[str, ...] = ()
    tls_cert_refresh_check_duration_sec: int = 300
    """The seconds after which a handshake looks whether the files have changed; 0 means that it never looks."""

    def __post_init__(self) -> None:
        if self.tls_require_trusted_client_cert_on_connect and not self.tls_trust_certs_file_path:
            raise ValueError("tls_require_trusted_client_cert_on_connect needs tls_trust_certs_file_path")
