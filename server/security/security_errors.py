"""The errors of security: configuration that cannot be used, and credentials that are refused."""


class SecurityConfigError(Exception):
    """A key, password file, certificate or provider cannot be used. The text is for the user and holds no secret."""


class RejectedCredentialsError(Exception):
    """A peer's credentials do not prove the peer's identity. The text is for the log: the peer is not told the
    reason."""
