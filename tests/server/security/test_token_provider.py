"""Tokens are judged by their signatures, their claims and the time."""

import base64
import hashlib
import hmac
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from magnetar.server.security.principals import Identity
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError
from magnetar.server.security.token_provider import TokenVerifier, hmac_algorithms, load_public_key

KEY = b"k" * 32
OTHER = b"o" * 32
NOW = 1_000_000.0


def verifier(**options: Any) -> TokenVerifier:
    return TokenVerifier(KEY, hmac_algorithms(KEY, "key"), **options)


def token(claims: dict[str, Any], key: Any = KEY, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, key, algorithm=algorithm)


def rejected(given: str, **options: Any) -> str:
    with pytest.raises(RejectedCredentialsError) as caught:
        verifier(**options).verify(given, NOW)
    return str(caught.value)


def test_the_subject_is_the_role() -> None:
    assert verifier().verify(token({"sub": "alice"}), NOW) == Identity("alice", None)


@pytest.mark.parametrize(("claim", "role"), [("alice", "alice"), (["bob", "carol"], "bob")])
def test_another_claim_may_hold_the_role_and_of_a_list_the_first_counts(claim: Any, role: str) -> None:
    given = token({"sub": "nobody", "role": claim})
    assert verifier(auth_claim="role").verify(given, NOW).role == role


@pytest.mark.parametrize("claims", [{}, {"sub": ""}, {"sub": 7}, {"sub": []}, {"sub": None}, {"sub": {"a": 1}}])
def test_a_token_without_a_role_is_rejected(claims: dict[str, Any]) -> None:
    assert "no claim 'sub'" in rejected(token(claims))


def test_a_signature_of_another_key_is_rejected() -> None:
    assert "Signature verification failed" in rejected(token({"sub": "alice"}, OTHER))


def test_a_token_without_a_signature_is_rejected() -> None:
    assert "not valid" in rejected(token({"sub": "alice"}, None, "none"))


@pytest.mark.parametrize("text", ["", "   ", "abc", "a.b.c", "a.b", "." * 10, "x" * 100_000, "é.é.é"])
def test_what_is_no_token_is_rejected(text: str) -> None:
    rejected(text)


def test_a_token_is_good_until_it_expires() -> None:
    given = token({"sub": "alice", "exp": NOW})
    assert verifier().verify(given, NOW) == Identity("alice", NOW)
    with pytest.raises(RejectedCredentialsError, match="expired 5 s ago"):
        verifier().verify(given, NOW + 5)
    assert verifier(clock_skew_s=10).verify(given, NOW + 5).expires_at_s == NOW + 10


def test_a_token_is_not_good_before_its_time() -> None:
    early = token({"sub": "alice", "nbf": NOW + 60})
    assert "not valid for another 60 s" in rejected(early)
    assert verifier(clock_skew_s=60).verify(early, NOW).role == "alice"
    with pytest.raises(RejectedCredentialsError, match="not valid for another 60 s"):
        verifier(clock_skew_s=59).verify(early, NOW)


NO_TIMES = ["soon", True, [], [1], {"a": 1}, 10**400, -(10**400), 2**53, float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("name", ["exp", "nbf"])
@pytest.mark.parametrize("claim", NO_TIMES, ids=lambda claim: str(claim)[:8])
def test_a_time_that_is_none_is_rejected(name: str, claim: Any) -> None:
    assert rejected(token({"sub": "alice", name: claim})) == f"the token's claim '{name}' is not a time"


@pytest.mark.parametrize("part", [0, 1])
def test_a_token_of_deeply_nested_json_is_rejected(part: int) -> None:
    """The library reads the header before it looks at the signature, so anybody can send such a token."""
    deep = base64.urlsafe_b64encode(b"[" * 20_000 + b"]" * 20_000).rstrip(b"=").decode()
    parts = token({"sub": "alice"}).split(".")
    parts[part] = deep
    rejected(".".join(parts))


def test_a_role_that_is_half_of_a_surrogate_pair_is_rejected() -> None:
    assert "no claim 'sub'" in rejected(token({"sub": "\ud800"}))


@pytest.mark.parametrize(("audience", "accepted"), [("pulsar", True), (["x", "pulsar"], True), ("x", False)])
def test_the_audience_must_name_this_service(audience: Any, accepted: bool) -> None:
    options: dict[str, Any] = {"audience_claim": "aud", "audience": "pulsar"}
    given = token({"sub": "alice", "aud": audience})
    if accepted:
        assert verifier(**options).verify(given, NOW).role == "alice"
    else:
        assert "does not name this service" in rejected(given, **options)
    assert "does not name this service" in rejected(token({"sub": "alice"}), **options)


def test_a_key_is_used_only_for_algorithms_that_it_is_long_enough_for() -> None:
    assert hmac_algorithms(bytes(32), "k") == ("HS256",)
    assert hmac_algorithms(bytes(64), "k") == ("HS256", "HS384", "HS512")
    with pytest.raises(SecurityConfigError, match="31 bytes is too weak"):
        hmac_algorithms(bytes(31), "k")


@pytest.mark.parametrize("encoding", [Encoding.DER, Encoding.PEM])
def test_tokens_signed_with_a_private_key(encoding: Encoding) -> None:
    for algorithm, private in (
        ("RS256", rsa.generate_private_key(65537, 2048)),
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
    ):
        content = private.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
        key, algorithms = load_public_key(content, algorithm, "tokenPublicKey")
        assert TokenVerifier(key, algorithms).verify(token({"sub": "a"}, private, algorithm), NOW).role == "a"
        # The classic attack: a token that is signed by HMAC with the public key, which everybody knows.
        forged = forge_hmac(content)
        with pytest.raises(RejectedCredentialsError):
            TokenVerifier(key, algorithms).verify(forged, NOW)
        with pytest.raises(SecurityConfigError, match="does not fit"):
            load_public_key(content, "ES256" if algorithm == "RS256" else "RS256", "tokenPublicKey")


def forge_hmac(public_key: bytes) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = part(b'{"alg":"HS256"}') + "." + part(b'{"sub":"admin"}')
    return f"{signed}.{part(hmac.digest(public_key, signed.encode(), hashlib.sha256))}"


def test_a_public_key_that_is_none_is_refused() -> None:
    with pytest.raises(SecurityConfigError, match="tokenPublicKey: not a public key"):
        load_public_key(b"\x30\x00", "RS256", "tokenPublicKey")
