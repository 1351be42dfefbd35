"""Passwords are compared with a .htpasswd file."""

import base64
from typing import Any

import bcrypt
import pytest
from passlib.hash import apr_md5_crypt, des_crypt, ldap_sha1, sha256_crypt, sha512_crypt

from magnetar.server.security.basic_provider import BasicProvider, parse_htpasswd
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError

FEW_ROUNDS = 1000
"""How often the hashes of SHA-crypt are repeated. Its usual half a million rounds take half a second."""


def bcrypt_of(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def crypt_of(scheme: Any) -> str:
    return str(scheme.using(rounds=FEW_ROUNDS).hash("pass"))


def htpasswd() -> bytes:
    lines = [
        f"md5:{apr_md5_crypt.hash('pass')}",
        f"bcrypt:{bcrypt_of('pass')}",
        f"sha1:{ldap_sha1.hash('pass')}",
        f"crypt:{des_crypt.hash('pass')}",
        f"sha256:{crypt_of(sha256_crypt)}",
        f"sha512:{crypt_of(sha512_crypt)}",
    ]
    return ("# users\n\n" + "\n".join(lines) + "\n").encode()


USERS = parse_htpasswd(htpasswd())


@pytest.mark.parametrize("user", sorted(USERS))
async def test_every_kind_of_hash_takes_the_right_password_only(user: str) -> None:
    provider = BasicProvider(USERS)
    assert (await provider.authenticate(f"{user}:pass".encode(), None)).role == user
    assert (await provider.authenticate(f"{user}:pass".encode(), None)).role == user, "from memory"
    for wrong in ("Pass", "", "pass ", "pass:"):
        with pytest.raises(RejectedCredentialsError, match="Unknown user or invalid password"):
            await provider.authenticate(f"{user}:{wrong}".encode(), None)


def test_a_known_answer_of_the_md5_crypt() -> None:
    """The hash is the output of `openssl passwd -apr1 -salt saltsalt password`."""
    assert apr_md5_crypt.verify("password", "$apr1$saltsalt$yAAkm4libquA.ZWLHbSBq/")


@pytest.mark.parametrize("data", [b"", b"nobody:pass", b"md5", b":pass", b"md5:pa\x00ss", b"md5:" + b"x" * 5000])
async def test_anything_else_is_rejected(data: bytes) -> None:
    with pytest.raises(RejectedCredentialsError):
        await BasicProvider(USERS).authenticate(data, None)


async def test_a_password_may_hold_a_colon_and_is_remembered_as_a_digest_only() -> None:
    provider = BasicProvider({"u": apr_md5_crypt.hash("a:b")})
    assert (await provider.authenticate(b"u:a:b", None)).role == "u"
    assert all(b"a:b" not in digest for digest in provider._known)


async def test_the_http_header() -> None:
    provider = BasicProvider(USERS)
    good = base64.b64encode(b"md5:pass").decode()
    identity = await provider.authenticate_http(f"Basic {good}")
    assert identity is not None
    assert identity.role == "md5"
    assert await provider.authenticate_http("Bearer abc") is None
    for bad in ("Basic", "Basic !!!", f"Basic {base64.b64encode(b'md5:no').decode()}"):
        with pytest.raises(RejectedCredentialsError):
            await provider.authenticate_http(bad)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"admin\n", b"admin:plaintext\n", b":$apr1$a$b\n"])
def test_a_file_that_is_not_htpasswds_is_refused_without_showing_it(content: bytes) -> None:
    with pytest.raises(SecurityConfigError, match="basicAuthConf") as caught:
        parse_htpasswd(content)
    assert "plaintext" not in str(caught.value)
