"""The method `token`: JSON web tokens that are signed by HMAC, or by a private key whose public half the server knows.

The times in a token are compared with a clock that the caller passes in. Sources: AuthenticationProviderToken,
AuthTokenUtils.
"""

from collections.abc import Callable
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from jwt.types import Options

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.key_locations import read_content
from magnetar.server.security.principals import Identity
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError

METHOD = "token"

HMAC_KEY_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The smallest size in bytes of a key for each algorithm; a shorter key is too weak for the algorithm (RFC 7518,
section 3.2)."""

RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
EC_ALGORITHMS = ("ES256", "ES384", "ES512")

TOKEN_BYTES_MAX = 16 << 10
"""The limit of a token's length, twice the limit of an HTTP request's head. The limit exists because anybody can send a
token, and deeply nested JSON takes a millisecond for each kilobyte."""

SECONDS_END = 2**53
"""A claim that is a time must lie less than this many seconds from 1970. Numbers below this limit are exact as
floats."""

NOT_A_TOKEN = (jwt.PyJWTError, ValueError, TypeError, RecursionError)
"""The errors that the library raises for a text that is not a token. PyJWT before version 2.11 raises RecursionError
for deeply nested JSON."""

UNCHECKED = Options(
    verify_exp=False, verify_nbf=False, verify_iat=False, verify_aud=False, verify_sub=False, verify_jti=False
)
"""Options by which the library checks the signature only. This module checks the claims, with the given clock and by
Pulsar's rules."""


class TokenVerifier:
    """Verifies tokens by one key. The answer depends on nothing but the token and the time."""

    def __init__(
        self,
        key: Any,
        algorithms: tuple[str, ...],
        *,
        auth_claim: str = "sub",
        audience_claim: str = "",
        audience: str = "",
        clock_skew_s: float = 0,
    ) -> None:
        self._key = key
        self._algorithms = list(algorithms)
        self._auth_claim = auth_claim
        self._audience_claim = audience_claim
        self._audience = audience
        self._clock_skew_s = clock_skew_s

    def verify(self, token: str, now_s: float) -> Identity:
        """Returns the identity that a token proves: the role, and the time at which the token expires, with the allowed
        clock skew added. Raises RejectedCredentialsError."""
        claims = self.claims(token)
        expires_at_s = self._check_time(claims, now_s)
        self._check_audience(claims)
        role = claims.get(self._auth_claim)
        if isinstance(role, list):
            role = role[0] if role else None
        if not isinstance(role, str) or not role or not _is_unicode(role):
            raise RejectedCredentialsError(f"the token has no claim '{self._auth_claim}' with a role")
        return Identity(role, expires_at_s)

    def claims(self, token: str) -> dict[str, Any]:
        """Checks only the signature of a token and returns its claims. Raises RejectedCredentialsError when the
        signature is wrong, or the text is no token."""
        if not token.strip():
            raise RejectedCredentialsError("Blank token found")
        if len(token) > TOKEN_BYTES_MAX:
            raise RejectedCredentialsError(f"the token is longer than {TOKEN_BYTES_MAX} characters")
        try:
            decoded: dict[str, Any] = jwt.decode(
                token.strip(), self._key, algorithms=self._algorithms, options=UNCHECKED
            )
        except NOT_A_TOKEN as error:
            raise RejectedCredentialsError(f"the token is not valid: {error}") from None
        return decoded

    def _check_time(self, claims: dict[str, Any], now_s: float) -> float | None:
        expires_s = _seconds(claims, "exp")
        if expires_s is not None and now_s > expires_s + self._clock_skew_s:
            raise RejectedCredentialsError(f"the token expired {now_s - expires_s:.0f} s ago")
        not_before_s = _seconds(claims, "nbf")
        if not_before_s is not None and now_s < not_before_s - self._clock_skew_s:
            raise RejectedCredentialsError(f"the token is not valid for another {not_before_s - now_s:.0f} s")
        return None if expires_s is None else expires_s + self._clock_skew_s

    def _check_audience(self, claims: dict[str, Any]) -> None:
        if not self._audience_claim:
            return
        given = claims.get(self._audience_claim)
        audiences = given if isinstance(given, list) else [given]
        if self._audience not in audiences:
            raise RejectedCredentialsError(f"the token's claim '{self._audience_claim}' does not name this service")


def _is_unicode(text: str) -> bool:
    """Returns False for a text with half of a surrogate pair. JSON can spell such a text, but it cannot be encoded in
    UTF-8, so no record, answer or metric can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    """Returns a claim that is a time, or None if the token has no such claim. Raises RejectedCredentialsError for a
    value that is no number or that no clock can reach. The value must not be NaN, which Python's JSON parser accepts:
    every comparison with NaN is false, so that the token would never expire."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -SECONDS_END < value < SECONDS_END:
        raise RejectedCredentialsError(f"the token's claim '{name}' is not a time")
    return float(value)


def hmac_algorithms(key: bytes, what: str) -> tuple[str, ...]:
    """Returns the algorithms for which the key is long enough, the strongest last. Raises SecurityConfigError if the
    key is too short for all of them."""
    algorithms = tuple(name for name, size in HMAC_KEY_BYTES.items() if len(key) >= size)
    if not algorithms:
        raise SecurityConfigError(f"{what}: a key of {len(key)} bytes is too weak: at least 32 are needed")
    return algorithms


def load_public_key(content: bytes, algorithm: str, what: str) -> tuple[Any, tuple[str, ...]]:
    """Returns the key, and the algorithms that go with a key of its kind. The content is an X.509 SubjectPublicKeyInfo
    in DER, the form that Apache's broker takes, or in PEM. Raises SecurityConfigError."""
    load = load_pem_public_key if content.lstrip().startswith(b"-----BEGIN") else load_der_public_key
    try:
        key = load(content)
    except (ValueError, UnsupportedAlgorithm):
        raise SecurityConfigError(f"{what}: not a public key (X.509 SubjectPublicKeyInfo, DER or PEM)") from None
    algorithms: tuple[str, ...] = ()
    if isinstance(key, RSAPublicKey):
        algorithms = RSA_ALGORITHMS
    elif isinstance(key, EllipticCurvePublicKey):
        algorithms = EC_ALGORITHMS
    if algorithm not in algorithms:
        raise SecurityConfigError(f"{what}: the key's kind does not fit the algorithm {algorithm}")
    return key, algorithms


def unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns header and claims of a token without checking its signature. Raises RejectedCredentialsError."""
    try:
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={**UNCHECKED, "verify_signature": False})
    except NOT_A_TOKEN as error:
        raise RejectedCredentialsError(f"not a token: {error}") from None
    return header, claims


class TokenProvider:
    """The provider of the method `token` (`providers.Provider`)."""

    method = METHOD

    def __init__(self, verifier: TokenVerifier, now_s: Callable[[], float]) -> None:
        self._verifier = verifier
        self._now_s = now_s

    @classmethod
    def make(cls, settings: SecuritySettings, now_s: Callable[[], float]) -> "TokenProvider":
        """Makes the provider from the settings. Raises SecurityConfigError."""
        if settings.token_secret_key:
            key: Any = read_content(settings.token_secret_key, "tokenSecretKey")
            algorithms = hmac_algorithms(key, "tokenSecretKey")
        elif settings.token_public_key:
            content = read_content(settings.token_public_key, "tokenPublicKey")
            key, algorithms = load_public_key(content, settings.token_public_alg, "tokenPublicKey")
        else:
            raise SecurityConfigError("No secret key was provided for token authentication (tokenSecretKey)")
        verifier = TokenVerifier(
            key,
            algorithms,
            auth_claim=settings.token_auth_claim,
            audience_claim=settings.token_audience_claim,
            audience=settings.token_audience,
            clock_skew_s=settings.token_allowed_clock_skew_seconds,
        )
        return cls(verifier, now_s)

    async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
        return self._verifier.verify(_text(data), self._now_s())

    async def authenticate_http(self, authorization: str) -> Identity | None:
        scheme, _, token = authorization.partition(" ")
        return None if scheme != "Bearer" else self._verifier.verify(token.strip(), self._now_s())


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RejectedCredentialsError("the token is not text") from None
