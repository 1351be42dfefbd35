"""Makes keys and tokens for `magnetar tokens`.

Keys have the forms that Apache uses: a secret key is its raw bytes, a private key is PKCS #8 and a public key X.509
SubjectPublicKeyInfo, both in DER. Sources: TokensCliUtils, AuthTokenUtils, RelativeTimeUtil.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
)

from magnetar.server.security.security_errors import SecurityConfigError
from magnetar.server.security.token_provider import HMAC_KEY_BYTES, hmac_algorithms

RSA_BITS = 2048
CURVES: dict[str, type[ec.EllipticCurve]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}


def make_secret_key(algorithm: str) -> bytes:
    return secrets.token_bytes(HMAC_KEY_BYTES[algorithm])


def make_key_pair(algorithm: str) -> tuple[bytes, bytes]:
    """Returns the private and the public key."""
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if algorithm in CURVES:
        private = ec.generate_private_key(CURVES[algorithm]())
    else:
        private = rsa.generate_private_key(65_537, RSA_BITS)
    return (
        private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    )


def load_private_key(content: bytes, algorithm: str, what: str) -> Any:
    """Reads a private key in DER or PEM. Raises SecurityConfigError for any other content, and for a key whose kind
    does not fit the algorithm."""
    load = load_pem_private_key if content.lstrip().startswith(b"-----BEGIN") else load_der_private_key
    try:
        key = load(content, None)
    except (ValueError, TypeError):
        raise SecurityConfigError(f"{what}: not a private key (PKCS #8, DER or PEM, not encrypted)") from None
    fits = isinstance(key, ec.EllipticCurvePrivateKey) if algorithm in CURVES else isinstance(key, rsa.RSAPrivateKey)
    if not fits:
        raise SecurityConfigError(f"{what}: the key's kind does not fit the algorithm {algorithm}")
    return key


def make_token(
    key: Any, algorithm: str, subject: str, *, expires_at_s: int | None = None, headers: Mapping[str, str] | None = None
) -> str:
    """Returns a signed token. The token's header has `alg` and the given headers but no `typ`, like the header of
    Apache's tokens."""
    claims: dict[str, Any] = {"sub": subject}
    if expires_at_s is not None:
        claims["exp"] = expires_at_s
    return jwt.encode(claims, key, algorithm=algorithm, headers={"typ": None, **(headers or {})})


def strongest_hmac(key: bytes, what: str) -> str:
    """Returns the strongest algorithm for which the key is long enough; Apache's tool signs with this algorithm. Raises
    SecurityConfigError when the key is too short for all algorithms."""
    return hmac_algorithms(key, what)[-1]


def relative_seconds(text: str) -> int:
    """Returns the seconds of a text like `1h`, `3d` or `10y`; a number without a unit means seconds. Raises
    ValueError."""
    match = re.fullmatch(r"([0-9]{1,9})([smhdwy]?)", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * UNIT_SECONDS[match[2] or "s"]
