"""The settings of the server. Names and defaults are taken from Java's zoo.cfg, with names in snake_case."""

from dataclasses import dataclass

JUTE_MAX_BUFFER = 0xFFFFF
UNLIMITED = 0


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """The settings of one server."""

    tick_ms: int = 2000
    session_timeout_min_ms: int = 4000
    """The shortest session timeout that is granted: two ticks unless the operator says otherwise."""
    session_timeout_max_ms: int = 40000
    """The longest session timeout that is granted: twenty ticks unless the operator says otherwise."""
    connections_per_address_max: int = 60
    """How many connections one address may have (maxClientCnxns); further ones are closed at once. 0 sets no limit."""
    connections_max: int = UNLIMITED
    """How many connections there may be (maxCnxns); further ones are closed at once. 0 sets no limit."""
    frame_bytes_max: int = JUTE_MAX_BUFFER
    """The longest request (jute.maxbuffer). A longer one ends its connection."""
    command_whitelist: frozenset[str] = frozenset(("srvr",))
    """The four-letter words that are answered."""
    super_digest: bytes | None = None
    """DigestAuthenticationProvider.superDigest: the digest of the credential with which a client may do everything."""
    container_check_ms: int = 60_000
    """How often empty containers are deleted (znode.container.checkIntervalMs)."""
