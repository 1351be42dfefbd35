"""The method `basic`: a user's name and password are compared with a `.htpasswd` file.

Apache's broker takes hashes of `$apr1$` (MD5 crypt) and DES crypt. This provider also takes the other kinds that
`htpasswd` writes: bcrypt, SHA-1, SHA-256 and SHA-512 crypt. A file with plain passwords is refused. Source:
AuthenticationProviderBasic.

The library that checks the hashes has a class for such files, HtpasswdFile. This module does not use that class,
because HtpasswdFile answers at once for an unknown user, which tells an attacker who exists, and because it loads lines
with a hash that nobody can check.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from concurrent.futures import ThreadPoolExecutor

from cachetools import LRUCache
from passlib.context import CryptContext

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.key_locations import read_content
from magnetar.server.security.principals import Identity
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError

METHOD = "basic"

BCRYPT = "bcrypt"
BCRYPT_BYTES_MAX = 72
"""The number of bytes of a password that bcrypt uses. The bcrypt library refuses a longer password, so the rest is cut
off."""

HASHES = CryptContext(("apr_md5_crypt", BCRYPT, "ldap_sha1", "sha256_crypt", "sha512_crypt", "des_crypt"))

KNOWN_MAX = 1_000
"""How many correct passwords are remembered, as keyed digests, so that a slow hash is not computed for each HTTP call.
Beyond this number the password that was used longest ago is forgotten."""

HASHING_THREADS = 2

CREDENTIAL_BYTES_MAX = 4_096

UNKNOWN = "Unknown user or invalid password"


def parse_htpasswd(content: bytes) -> dict[str, str]:
    """Returns the hash of each user. Raises SecurityConfigError, which tells the number of the faulty line but not its
    text."""
    users: dict[str, str] = {}
    for number, raw in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        user, colon, hashed = line.partition(":")
        if not colon or not user or HASHES.identify(hashed) is None:
            raise SecurityConfigError(f"basicAuthConf, line {number}: expected USER:HASH as htpasswd writes it")
        users[user] = hashed
    if not users:
        raise SecurityConfigError("basicAuthConf: there is no user in it")
    return users


class BasicProvider:
    """The provider of the method `basic` (`providers.Provider`). Hashes are computed on threads of their own: bcrypt
    takes a good part of a second, and a client that tries many passwords must hold up nothing but the judging of other
    passwords."""

    method = METHOD

    def __init__(self, users: dict[str, str]) -> None:
        self._users = users
        self._secret = secrets.token_bytes(32)
        self._threads = ThreadPoolExecutor(HASHING_THREADS, thread_name_prefix="passwords")
        self._known: LRUCache[bytes, str] = LRUCache(KNOWN_MAX)

    @classmethod
    def make(cls, settings: SecuritySettings) -> "BasicProvider":
        """Makes the provider from the settings. Raises SecurityConfigError."""
        if not settings.basic_auth_conf:
            raise SecurityConfigError("No basic authentication config provided (basicAuthConf)")
        return cls(parse_htpasswd(read_content(settings.basic_auth_conf, "basicAuthConf")))

    async def authenticate(self, data: bytes, common_name: str | None) -> Identity:
        """Checks `user:password` and returns the user's identity. Raises RejectedCredentialsError."""
        if len(data) > CREDENTIAL_BYTES_MAX or b":" not in data or b"\x00" in data:
            raise RejectedCredentialsError("expected user:password")
        digest = hmac.digest(self._secret, data, hashlib.sha256)
        user = self._known.get(digest)
        if user is None:
            user = await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, data)
            self._known[digest] = user
        return Identity(user)

    async def authenticate_http(self, authorization: str) -> Identity | None:
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            data = base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            raise RejectedCredentialsError('Authentication token has to be started with "Basic "') from None
        return await self.authenticate(data, None)

    def _verify(self, data: bytes) -> str:
        user_bytes, _, password = data.partition(b":")
        user = user_bytes.decode("utf-8", "replace")
        # For an unknown user the hash of another user is computed: the answer must take as long as for a known user.
        hashed = self._users.get(user) or next(iter(self._users.values()))
        if HASHES.identify(hashed) == BCRYPT:
            password = password[:BCRYPT_BYTES_MAX]
        try:
            matches = HASHES.verify(password, hashed)
        except (ValueError, TypeError):
            matches = False
        if not matches or user not in self._users:
            raise RejectedCredentialsError(UNKNOWN)
        return user
