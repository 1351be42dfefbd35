"""The configuration keys of authentication, authorization and TLS, as settings classes.

Each field has the snake_case name of a key in broker.conf (ServiceConfiguration). Secrets are kept out of `repr`, so
that no log line shows them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The settings of authentication and authorization. Raises ValueError when they contradict each other."""

    authentication_enabled: bool = False
    """Whether clients have to show who they are."""
    authentication_providers: tuple[str, ...] = ()
    """The Java class names of the authentication providers: AuthenticationProviderToken, AuthenticationProviderBasic
    and AuthenticationProviderTls of org.apache.pulsar.broker.authentication."""
    authentication_refresh_check_seconds: int = 60
    """The interval at which the broker looks for expired credentials. A peer that is asked for new credentials must
    answer before the next look."""
    anonymous_user_role: str = ""
    """The role of clients that show no credentials, or credentials of a method without a provider. If this is empty,
    such clients are refused."""
    authenticate_original_auth_data: bool = False
    """Whether the broker also checks the credentials that a proxy forwards from its client."""
    authenticate_metrics_endpoint: bool = False
    """Whether /metrics asks for credentials."""
    authorization_enabled: bool = False
    """Whether roles need permissions. Otherwise everybody who is authenticated may do everything."""
    authorization_provider: str = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"
    """The Java class of the authorization. This server has PulsarAuthorizationProvider only."""
    authorization_allow_wildcards_matching: bool = False
    """Whether a permission's role may begin or end with `*`, which stands for any characters."""
    super_user_roles: tuple[str, ...] = ()
    """The roles that may do everything."""
    proxy_roles: tuple[str, ...] = ()
    """The roles of proxies. A proxy acts for its clients: an action needs the permission of both."""
    token_secret_key: str = field(default="", repr=False)
    """The HMAC key with which tokens are checked: a path, `file:PATH`, `env:NAME`, a `data:` URL, or the key in
    base64."""
    token_public_key: str = field(default="", repr=False)
    """The public key with which tokens are checked, in one of the spellings of `token_secret_key`, instead of that
    key."""
    token_public_alg: str = "RS256"
    """The algorithm of tokens that are checked with `token_public_key`."""
    token_auth_claim: str = "sub"
    """The claim that holds the role. If the claim is an array, its first item is the role."""
    token_audience_claim: str = ""
    """The claim in which a token names the services that it is for; empty for no such check."""
    token_audience: str = ""
    """The name of this service in the claim `token_audience_claim`."""
    token_allowed_clock_skew_seconds: int = 0
    """By how much the clock of the tokens' issuer may differ from this machine's clock."""
    basic_auth_conf: str = field(default="", repr=False)
    """The path of a `.htpasswd` file, or the content of such a file as a `data:` URL or in base64."""

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
    """A PEM file with the server's certificate, followed by the intermediate certificates up to its authority."""
    tls_key_file_path: str = ""
    """A PEM file with the private key, which must not be encrypted."""
    tls_trust_certs_file_path: str = ""
    """A PEM file with the authorities whose clients' certificates are accepted."""
    tls_allow_insecure_connection: bool = False
    """If this is set, Apache's broker takes any client certificate unchecked, whereas this server asks clients for no
    certificate, because an unchecked certificate proves nothing."""
    tls_require_trusted_client_cert_on_connect: bool = False
    """Whether a client without a certificate of a trusted authority is disconnected."""
    tls_protocols: tuple[str, ...] = ()
    """The TLS versions, by their names in JSSE. If this is empty, TLSv1.3 and TLSv1.2 are spoken."""
    tls_ciphers: tuple[str, ...] = ()
    """The ciphers, by their names in JSSE or OpenSSL. If this is empty, Python chooses. The ciphers of TLS 1.3 cannot
    be chosen."""
    web_service_tls_protocols: tuple[str, ...] = ()
    """The TLS versions of the web port, like `tls_protocols`."""
    web_service_tls_ciphers: tuple[str, ...] = ()
    """The ciphers of the web port, like `tls_ciphers`."""
    tls_cert_refresh_check_duration_sec: int = 300
    """The seconds between two checks whether the certificate files have changed. The first handshake after
    this time makes the check; 0 means that no handshake makes it."""

    def __post_init__(self) -> None:
        if self.tls_require_trusted_client_cert_on_connect and not self.tls_trust_certs_file_path:
            raise ValueError("tls_require_trusted_client_cert_on_connect needs tls_trust_certs_file_path")
