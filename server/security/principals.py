"""The identity behind a peer's credentials, and the roles in which the peer acts."""

from dataclasses import dataclass
from typing import NamedTuple


class Identity(NamedTuple):
    """The identity that a provider returns for credentials that it accepts."""

    role: str
    expires_at_s: float | None = None
    """The Unix time in seconds at which the credentials expire; None if they never expire."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The role in which a connection or an HTTP call acts. Behind a proxy there are two roles, and both need the
    permission."""

    role: str
    original: str = ""
    """The role of the proxy's client; empty for a peer that is no proxy."""

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.role, self.original) if self.original else (self.role,)

    def __str__(self) -> str:
        return f"{self.role} for {self.original}" if self.original else self.role


def combination_fault(role: str, original: str, proxy_roles: frozenset[str], *, may_repeat: bool) -> str | None:
    """Returns why a role may not act for the original principal `original`, or None if it may
    (AuthorizationService.isValidOriginalPrincipal). With `may_repeat`, a role that is no proxy may name itself as the
    original principal, which is allowed over HTTP."""
    if role in proxy_roles:
        if not original.strip():
            return "originalPrincipal must be provided when connecting with a proxy role."
        if original in proxy_roles:
            return "originalPrincipal cannot be a proxy role."
        return None
    if original.strip() and not (may_repeat and original == role):
        return "cannot specify originalPrincipal when connecting without valid proxy role."
    return None
