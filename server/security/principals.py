"""Who a peer turned out to be."""

from dataclasses import dataclass
from typing import NamedTuple


class Identity(NamedTuple):
    """What a provider makes of credentials that it accepts."""

    role: str
    expires_at_s: float | None = None
    """Unix time; None: never."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The role of a connection or HTTP call. Behind a proxy both roles must be allowed what is asked."""

    role: str
    original: str = ""
    """The role of the proxy's client; empty: the peer is no proxy."""

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.role, self.original) if self.original else (self.role,)

    def __str__(self) -> str:
        return f"{self.role} for {self.original}" if self.original else self.role


def combination_fault(role: str, original: str, proxy_roles: frozenset[str], *, may_repeat: bool) -> str | None:
    """What is wrong with a role and the original principal that it names, or None
    (AuthorizationService.isValidOriginalPrincipal). `may_repeat`: over HTTP one that is no proxy may name itself."""
    if role in proxy_roles:
        if not original.strip():
            return "originalPrincipal must be provided when connecting with a proxy role."
        if original in proxy_roles:
            return "originalPrincipal cannot be a proxy role."
        return None
    if original.strip() and not (may_repeat and original == role):
        return "cannot specify originalPrincipal when connecting without valid proxy role."
    return None
