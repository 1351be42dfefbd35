"""The credentials that this broker shows to other brokers: none, a token, a name with a password, or a certificate.

The plugins are the Java client's classes AuthenticationToken, AuthenticationBasic and AuthenticationTls, and their
parameters have the format of the Java classes.
"""

import asyncio
import base64
import json
import logging
import os
import ssl
import time
from collections.abc import Callable, Mapping
from enum import Enum

import aiofiles

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers.peer_errors import PeerUnreachableError
from magnetar.server.security.security_errors import SecurityConfigError
from magnetar.server.tools.connection.server_trust import trusting_context

log = logging.getLogger(__name__)

METHOD_HEADER = "X-Pulsar-Auth-Method-Name"
TOKEN_BYTES_MAX = 1 << 20
_AUTH = "org.apache.pulsar.client.impl.auth."
_KEY = "brokerClientAuthenticationParameters"


class Method(Enum):
    """The methods of authentication, by their names in CONNECT."""

    NONE = "none"
    TOKEN = "token"
    BASIC = "basic"
    TLS = "tls"


PLUGINS: Mapping[str, Method] = {
    "": Method.NONE,
    f"{_AUTH}AuthenticationDisabled": Method.NONE,
    f"{_AUTH}AuthenticationToken": Method.TOKEN,
    f"{_AUTH}AuthenticationBasic": Method.BASIC,
    f"{_AUTH}AuthenticationTls": Method.TLS,
}
"""The values of brokerClientAuthenticationPlugin. A method's short name stands for its plugin, as in Java's
AuthenticationFactory."""


class PeerCredentials:
    """This broker's credentials. The credentials are never printed."""

    def __init__(self, settings: PeerSettings, now_s: Callable[[], float] = time.monotonic) -> None:
        """Reads the settings, and the files of certificates if TLS is on; a token's file is read for every connection,
        because such tokens are renewed. Raises SecurityConfigError when the settings or the files cannot be used."""
        plugin = settings.broker_client_authentication_plugin
        method = PLUGINS.get(plugin) or (Method(plugin) if plugin in {each.value for each in Method} else None)
        if method is None:
            raise SecurityConfigError(f"brokerClientAuthenticationPlugin: {plugin} does not exist here")
        self.method = method
        self.uses_tls = settings.broker_client_tls_enabled
        self._settings = settings
        self._now_s = now_s
        self._data = b""
        self._token_file = ""
        self._certificate = settings.broker_client_certificate_file_path
        self._key = settings.broker_client_key_file_path
        self._configure(settings.broker_client_authentication_parameters)
        self._signature = self._sign()
        self._tls = self._make_tls() if self.uses_tls else None
        self._looked_at_s = now_s()

    def reload(self) -> None:
        """Called after the settings were changed in place. New connections show the new credentials. If the new
        settings cannot be used, the old credentials stay."""
        try:
            fresh = PeerCredentials(self._settings, self._now_s)
        except SecurityConfigError as error:
            log.warning("the credentials for peers stay as they were: %s", error)
            return
        self.__dict__.update(fresh.__dict__)

    def _configure(self, parameters: str) -> None:
        if self.method is Method.TOKEN:
            self._configure_token(parameters)
        elif self.method is Method.BASIC:
            values = _json_object(parameters)
            if values is None or not values.get("userId") or "password" not in values:
                raise SecurityConfigError(f'{_KEY}: expected {{"userId":…,"password":…}}')
            self._data = f"{values['userId']}:{values['password']}".encode()
        elif self.method is Method.TLS:
            values = _json_object(parameters) or _pairs(parameters)
            self._certificate = str(values.get("tlsCertFile", self._certificate))
            self._key = str(values.get("tlsKeyFile", self._key))
            if not self._certificate or not self._key:
                raise SecurityConfigError(f"{_KEY}: AuthenticationTls needs tlsCertFile and tlsKeyFile")

    def _configure_token(self, parameters: str) -> None:
        """Reads the parameters of AuthenticationToken.configure: `token:…`, `file:…`, a JSON object with `token`, or
        the token itself."""
        if parameters.startswith("file:"):
            path = parameters.removeprefix("file:")
            self._token_file = path[path.index("/", 2) :] if path.startswith("//") and "/" in path[2:] else path
            return
        values = _json_object(parameters)
        token = str(values.get("token", "")) if values is not None else parameters.removeprefix("token:")
        if not token.strip():
            raise SecurityConfigError(f"{_KEY}: AuthenticationToken needs a token")
        self._data = token.strip().encode()

    def __repr__(self) -> str:
        return f"PeerCredentials({self.method.value})"

    async def data(self) -> bytes:
        """Returns the auth_data of CONNECT and AUTH_RESPONSE. Raises PeerUnreachableError when the token's file cannot
        be read."""
        if not self._token_file:
            return self._data
        try:
            async with aiofiles.open(self._token_file, "rb") as file:
                return (await file.read(TOKEN_BYTES_MAX)).strip()
        except OSError as error:
            raise PeerUnreachableError(f"{_KEY}: {self._token_file} cannot be read: {error.strerror}") from None

    async def headers(self) -> dict[str, str]:
        """Returns the headers of an HTTP call. Raises PeerUnreachableError when the token's file cannot be read."""
        if self.method is Method.NONE:
            return {}
        headers = {METHOD_HEADER: self.method.value}
        if self.method is Method.TOKEN:
            headers["Authorization"] = f"Bearer {(await self.data()).decode('latin-1')}"
        elif self.method is Method.BASIC:
            headers["Authorization"] = f"Basic {base64.b64encode(self._data).decode()}"
        return headers

    async def tls(self) -> ssl.SSLContext | None:
        """Returns the context for new connections to TLS ports; None while brokerClientTlsEnabled is off. Files that
        have changed are read again. If they cannot be used, this call raises PeerUnreachableError, and the calls until
        the next look return the old certificates."""
        refresh_s = self._settings.tls_cert_refresh_check_duration_sec
        if self._tls is not None and refresh_s and self._now_s() - self._looked_at_s >= refresh_s:
            self._looked_at_s = self._now_s()
            signature = self._sign()
            if signature != self._signature:
                try:
                    self._tls = await asyncio.to_thread(self._make_tls)
                    self._signature = signature
                except SecurityConfigError as error:
                    raise PeerUnreachableError(str(error)) from error
        return self._tls

    def _make_tls(self) -> ssl.SSLContext:
        settings = self._settings
        try:
            context = trusting_context(settings.broker_client_trust_certs_file_path)
            if self._certificate:
                context.load_cert_chain(self._certificate, self._key or None, password="")
        except (OSError, ValueError) as error:
            raise SecurityConfigError(f"brokerClientTlsEnabled: its certificates cannot be used: {error}") from None
        context.check_hostname = settings.tls_hostname_verification_enabled
        if settings.tls_allow_insecure_connection:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _sign(self) -> tuple[tuple[int, int, int], ...]:
        """Returns the times, sizes and inodes of the files. A replaced file has other values."""
        found = []
        for path in (self._settings.broker_client_trust_certs_file_path, self._certificate, self._key):
            try:
                stat = os.stat(path)
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)


def _json_object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _pairs(text: str) -> dict[str, object]:
    """Returns the values of `name:value,name:value` (AuthenticationUtil.configureFromPulsar1AuthParamString)."""
    pairs = (item.partition(":") for item in text.split(",") if item)
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
