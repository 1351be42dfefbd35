"""The settings with which a broker, as a client, reaches the other brokers of its cluster: credentials, TLS and
limits."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """The settings of a broker's own clients (PulsarService.getClient, getAdminClient). Each field has the snake_case
    name of a key in broker.conf."""

    cluster_name: str = "standalone"
    broker_client_authentication_plugin: str = ""
    """The Java class of the plugin that logs this broker in at its peers: AuthenticationToken, AuthenticationBasic or
    AuthenticationTls of org.apache.pulsar.client.impl.auth. If this is empty, the broker shows no credentials."""
    broker_client_authentication_parameters: str = field(default="", repr=False)
    """The configuration of the plugin. The plugin decides what the text means."""
    broker_client_tls_enabled: bool = False
    """Whether peers are dialled on their TLS ports."""
    broker_client_trust_certs_file_path: str = ""
    """A PEM file with the authorities that peers' certificates come from. If this is empty, the authorities of the
    system count."""
    broker_client_certificate_file_path: str = ""
    """A PEM file with the certificate that this broker shows to its peers."""
    broker_client_key_file_path: str = ""
    """A PEM file with the private key of that certificate."""
    tls_allow_insecure_connection: bool = False
    """Whether a peer's certificate is accepted unchecked."""
    tls_hostname_verification_enabled: bool = False
    """Whether a peer's certificate must be made for the name that is dialled."""
    tls_cert_refresh_check_duration_sec: int = 300
    """The seconds between two checks whether the certificate files have changed. The first new connection after
    this time makes the check; 0 means that no new connection makes it."""
    metadata_store_operation_timeout_seconds: int = 30
    """The deadline of an admin call to a peer. Most of these calls wait for the metadata store, so Apache gives its
    admin client the same deadline."""
    max_message_size: int = 5 * 1024 * 1024
