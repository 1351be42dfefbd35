"""When a connection's credential must be renewed: rules only, time comes in.

Source: ServerCnx.refreshAuthenticationCredentials.

The shell looks every `authenticationRefreshCheckSeconds`. An expired credential is asked for anew once; who has not
answered by the next look is closed, and so is a client that cannot answer (it lacks `supports_auth_refresh`).
"""

from enum import Enum

CHALLENGE = b"PulsarAuthRefresh"
"""The data of the AUTH_CHALLENGE by which clients know a renewal (facts 14)."""


class RefreshStep(Enum):
    NOTHING = "nothing"
    CHALLENGE = "challenge"
    CLOSE = "close"


class CredentialRefresh:
    """One connection's credential."""

    __slots__ = ("_expires_at_s", "_supports_refresh", "is_challenged")

    def __init__(self, expires_at_s: float, *, supports_refresh: bool) -> None:
        """`expires_at_s`: Unix time."""
        self._expires_at_s = expires_at_s
        self._supports_refresh = supports_refresh
        self.is_challenged = False
        """An AUTH_RESPONSE is expected."""

    def look(self, now_s: float) -> RefreshStep:
        if self.is_challenged:
            return RefreshStep.CLOSE
        if now_s <= self._expires_at_s:
            return RefreshStep.NOTHING
        if not self._supports_refresh:
            return RefreshStep.CLOSE
        self.is_challenged = True
        return RefreshStep.CHALLENGE

    def renewed(self, expires_at_s: float | None) -> bool:
        """The answer was good. False: the new credential never expires, no more looks are needed."""
        self.is_challenged = False
        self._expires_at_s = float("inf") if expires_at_s is None else expires_at_s
        return expires_at_s is not None
