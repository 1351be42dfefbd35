"""The configuration keys of authentication, authorization and TLS, as settings classes.

Fields are the snake_case of broker.conf's keys (ServiceConfiguration). Whatever is secret stays out of `repr`.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Authentication and authorization. Raises ValueError for what contradicts itself."""

    authentication_enabled: bool = False
    authentication_providers: tuple[str, ...] = ()
    """Java class names; see `providers.PROVIDERS`."""
    authentication_refresh_check_seconds: int = 60
    """How often an expiring credential is looked at; the peer has until the next look to send a new one."""
    anonymous_user_role: str = ""
    """The role of clients without credentials, or with ones of a method that is not provided; empty: refused."""
    authenticate_original_auth_data: bool = False
    """A proxy forwards its client's credentials, which are then checked here too."""
    authenticate_metrics_endpoint: bool = False
    """Whether /metrics asks for credentials."""
    authorization_enabled: bool = False
    authorization_provider: str = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"
    authorization_allow_wildcards_matching: bool = False
    super_user_roles: tuple[str, ...] = ()
    proxy_roles: tuple[str, ...] = ()
    token_secret_key: str = field(default="", repr=False)
    """Where the HMAC key is, see `keys.read_key`."""
    token_public_key: str = field(default="", repr=False)
    token_public_alg: str = "RS256"
    token_auth_claim: str = "sub"
    """The claim that holds the role; of an array the first."""
    token_audience_claim: str = ""
    token_audience: str = ""
    token_allowed_clock_skew_seconds: int = 0
    basic_auth_conf: str = field(default="", repr=False)
    """A `.htpasswd` file, or its content as `data:` or base64."""

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
    """Certificates and how clients are checked against them. Raises ValueError for what contradicts itself."""

    tls_certificate_file_path: str = ""
    """PEM: the server's certificate, then those between it and its authority."""
    tls_key_file_path: str = ""
    """PEM: the private key, not encrypted."""
    tls_trust_certs_file_path: str = ""
    """PEM: the authorities whose client certificates count."""
    tls_allow_insecure_connection: bool = False
    """Apache then takes any client certificate unchecked. Here none is asked for: an unchecked one proves nothing."""
    tls_require_trusted_client_cert_on_connect: bool = False
    tls_protocols: tuple[str, ...] = ()
    """As JSSE names them; empty: TLSv1.3 and TLSv1.2."""
    tls_ciphers: tuple[str, ...] = ()
    """As JSSE or OpenSSL names them; empty: Python's choice. Those of TLS 1.3 cannot be chosen."""
    web_service_tls_protocols: tuple[str, ...] = ()
    web_service_tls_ciphers: tuple[str, ...] = ()
    tls_cert_refresh_check_duration_sec: int = 300
    """How often a handshake looks whether the files have changed; 0: never."""

    def __post_init__(self) -> None:
        if self.tls_require_trusted_client_cert_on_connect and not self.tls_trust_certs_file_path:
            raise ValueError("tls_require_trusted_client_cert_on_connect needs tls_trust_certs_file_path")
