"""Decides when a connection must renew its credential. Rules only; the time is an argument.

The connection calls `look` every `authenticationRefreshCheckSeconds`. When the credential has expired, the connection
asks the client for a new credential. A client that has not answered by the next look is disconnected. A client that
cannot answer because it lacks the feature `supports_auth_refresh` is disconnected at once. Source:
ServerCnx.refreshAuthenticationCredentials.
"""

from enum import Enum

CHALLENGE = b"PulsarAuthRefresh"
"""The data of an AUTH_CHALLENGE that asks for a renewal. Clients recognise the request by this data
(AuthData.REFRESH_AUTH_DATA)."""


class RefreshStep(Enum):
    NOTHING = "nothing"
    CHALLENGE = "challenge"
    CLOSE = "close"


class CredentialRefresh:
    """The credential of one connection."""

    __slots__ = ("_expires_at_s", "_supports_refresh", "is_challenged")

    def __init__(self, expires_at_s: float, *, supports_refresh: bool) -> None:
        """`expires_at_s` is the Unix time at which the credential expires, in seconds."""
        self._expires_at_s = expires_at_s
        self._supports_refresh = supports_refresh
        self.is_challenged = False
        """Whether an AUTH_CHALLENGE was sent whose AUTH_RESPONSE has not come yet."""

    def look(self, now_s: float) -> RefreshStep:
        """Returns what the connection must do now. After CHALLENGE, the next call returns CLOSE unless `renewed` is
        called in between."""
        if self.is_challenged:
            return RefreshStep.CLOSE
        if now_s <= self._expires_at_s:
            return RefreshStep.NOTHING
        if not self._supports_refresh:
            return RefreshStep.CLOSE
        self.is_challenged = True
        return RefreshStep.CHALLENGE

    def renewed(self, expires_at_s: float | None) -> bool:
        """Takes the new credential's time of expiry; None means that the credential never expires. Returns whether the
        connection must go on calling `look`."""
        self.is_challenged = False
        self._expires_at_s = float("inf") if expires_at_s is None else expires_at_s
        return expires_at_s is not None
