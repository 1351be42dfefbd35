"""Whatever a peer or a file holds, the outcome is one of the two errors of security, and no secret is in its text."""

import string
from typing import Any

import jwt
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.security.authentication import Authenticator
from magnetar.server.security.authorizer import parse_record
from magnetar.server.security.basic_provider import BasicProvider, parse_htpasswd
from magnetar.server.security.key_locations import read_content
from magnetar.server.security.permission_rules import NamespacePermissions
from magnetar.server.security.principals import Identity
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError
from magnetar.server.security.tls_provider import TlsProvider, common_name_of
from magnetar.server.security.token_maker import load_private_key
from magnetar.server.security.token_provider import TokenProvider, TokenVerifier, load_public_key, unverified
from tests.rounds import rounds

KEY = b"k" * 32
WORDS = st.text(st.sampled_from(string.printable + "é\x00"), max_size=60)
NUMBERS = st.integers() | st.floats() | st.integers(0, 4_000).map(lambda digits: 10**digits)
SURROGATES = st.text(st.characters(), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | SURROGATES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "auth_policies": JSON
        | st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(("namespace_auth", "destination_auth", "subscription_auth_roles"), JSON),
        ),
        "subscription_auth_mode": JSON,
    },
)


def authenticator() -> Authenticator:
    providers: dict[str, Any] = {
        "token": TokenProvider(TokenVerifier(KEY, ("HS256",)), lambda: 0.0),
        "tls": TlsProvider(),
    }
    return Authenticator(providers, "")


@given(st.sampled_from(["token", "tls", "", "none", "odd"]), st.binary(max_size=200), st.none() | WORDS)
async def test_any_credentials_give_a_role_or_are_rejected(method: str, data: bytes, name: str | None) -> None:
    try:
        identity = await authenticator().of_connect(method, data, name)
    except RejectedCredentialsError:
        return
    assert method == "tls"
    assert identity == Identity(name or "")


@given(st.sampled_from(["Bearer ", "Basic ", "", "Digest "]), WORDS, st.sampled_from(["", "token", "tls", "odd"]))
async def test_any_http_header_gives_a_role_or_is_rejected(scheme: str, rest: str, method: str) -> None:
    headers = {"Authorization": scheme + rest, "X-Pulsar-Auth-Method-Name": method}
    try:
        await authenticator().of_http(headers, None)
    except RejectedCredentialsError:
        return
    raise AssertionError("somebody came in")


@given(st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "aud", "iat", "iss"]), JSON))
def test_any_claims_that_are_signed_give_a_role_or_are_rejected(claims: dict[str, Any]) -> None:
    token = jwt.encode(claims, KEY, algorithm="HS256") if jwt_takes(claims) else "x"
    try:
        identity = TokenVerifier(KEY, ("HS256",), audience_claim="aud", audience="a").verify(token, 0.0)
    except RejectedCredentialsError:
        return
    assert identity.role
    assert identity.role.encode()
    assert identity.expires_at_s is None or identity.expires_at_s >= 0.0


def jwt_takes(claims: dict[str, Any]) -> bool:
    """Returns whether the library would sign these claims."""
    try:
        jwt.encode(claims, KEY, algorithm="HS256")
    except (TypeError, ValueError, jwt.PyJWTError):
        return False
    return True


@given(WORDS)
def test_a_text_that_is_no_token_cannot_be_shown(text: str) -> None:
    try:
        unverified(text)
    except RejectedCredentialsError:
        return
    assert text.count(".") >= 2, "this text does not have a token's three parts"


@given(WORDS | st.binary(max_size=80).map(lambda data: "data:;base64," + data.hex()))
def test_any_location_of_a_key_gives_bytes_or_is_refused(location: str) -> None:
    if location.startswith(("/", ".", "file:", "env:")) or location in ("", "tests", "server"):
        return
    key = "tokenSecretKey"
    said = ""
    try:
        assert read_content(location, key)
    except SecurityConfigError as error:
        said = str(error).removeprefix(key)
    assert len(location) < 12 or location not in said


@given(st.binary(max_size=200))
@settings(max_examples=rounds(50))
def test_any_bytes_are_users_or_a_fault_and_keys_or_a_fault(content: bytes) -> None:
    for load in (
        lambda: parse_htpasswd(content),
        lambda: load_public_key(content, "RS256", "key"),
        lambda: load_private_key(content, "RS256", "key"),
    ):
        try:
            load()
        except SecurityConfigError:
            continue


@given(st.binary(max_size=100))
async def test_any_password_is_rejected(data: bytes) -> None:
    provider = BasicProvider({"u": "$apr1$saltsalt$yAAkm4libquA.ZWLHbSBq/"})
    try:
        await provider.authenticate(data, None)
    except RejectedCredentialsError:
        return
    raise AssertionError("somebody came in")


@given(POLICIES)
def test_any_policies_can_be_read(policies: dict[str, Any]) -> None:
    permissions = NamespacePermissions.of_policies(policies)
    assert isinstance(permissions.subscription_auth_mode, str)


@given(st.binary(max_size=60))
def test_any_record_of_a_tenant_can_be_read(value: bytes) -> None:
    assert isinstance(parse_record(value), dict)


@given(JSON)
def test_a_certificate_without_a_subject_names_nobody(issuer: Any) -> None:
    assert common_name_of({"issuer": issuer}) is None
