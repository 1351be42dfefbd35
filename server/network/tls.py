"""TLS of the ports: SSL contexts that are made from PEM files, and made again when the files change.

The first handshake that comes `tlsCertRefreshCheckDurationSec` after the last look at the files finds a renewed
certificate; open connections keep the old certificate. The handshake also checks client certificates. Without a
configured authority the server asks for no client certificate. Sources: the tls* keys of ServiceConfiguration,
SslContextAutoRefreshBuilder.
"""

import logging
import os
import ssl
from collections.abc import Callable

from magnetar.server.config.security_settings import TlsSettings
from magnetar.server.security.security_errors import SecurityConfigError

log = logging.getLogger(__name__)

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_Signature = tuple[tuple[int, int, int], ...]


class _Handshake(ssl.SSLObject):
    """An SSL object that logs a failed handshake. The event loop reports such failures nowhere, so a refused client
    would leave no trace."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            log.warning("a TLS handshake failed: %s", getattr(error, "verify_message", None) or error.reason or error)
            raise


class ServerTls:
    """The TLS of one port. `context` is for `create_server`, and stays valid when the files change: each handshake that
    begins with `context` goes on with the newest certificates."""

    def __init__(
        self,
        settings: TlsSettings,
        *,
        protocols: tuple[str, ...] = (),
        ciphers: tuple[str, ...] = (),
        now_s: Callable[[], float],
    ) -> None:
        """Reads the files. If `protocols` or `ciphers` is empty, the value of the settings is used. `now_s` is a
        monotonic clock. Raises SecurityConfigError."""
        self._settings = settings
        self._protocols = protocols or settings.tls_protocols
        self._ciphers = ciphers or settings.tls_ciphers
        self._now_s = now_s
        self._looked_at_s = now_s()
        self._signature = self._sign()
        self.context = self._current = self._make()
        if settings.tls_cert_refresh_check_duration_sec > 0:
            self.context.sni_callback = self._handshake_begins

    def _make(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = _Handshake
        context.minimum_version, context.maximum_version = version_range(self._protocols)
        # No TLS session is resumed, because a resumed session would go on with replaced certificates.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        if not settings.tls_certificate_file_path or not settings.tls_key_file_path:
            raise SecurityConfigError("a TLS port needs tlsCertificateFilePath and tlsKeyFilePath")
        try:
            if self._ciphers:
                context.set_ciphers(openssl_ciphers(self._ciphers))
        except ssl.SSLError:
            raise SecurityConfigError(f"tlsCiphers: none of {', '.join(self._ciphers)} is known here") from None
        try:
            # With an empty password, an encrypted key is an error. Without the argument, OpenSSL would ask for a
            # password on the terminal.
            context.load_cert_chain(settings.tls_certificate_file_path, settings.tls_key_file_path, password="")
        except (OSError, ValueError) as error:
            names = f"{settings.tls_certificate_file_path} with the key {settings.tls_key_file_path}"
            raise SecurityConfigError(f"tlsCertificateFilePath: {names} cannot be used: {_why(error)}") from None
        if settings.tls_trust_certs_file_path and not settings.tls_allow_insecure_connection:
            try:
                context.load_verify_locations(settings.tls_trust_certs_file_path)
            except (OSError, ValueError) as error:
                raise SecurityConfigError(
                    f"tlsTrustCertsFilePath: {settings.tls_trust_certs_file_path} cannot be used: {_why(error)}"
                ) from None
            required = settings.tls_require_trusted_client_cert_on_connect
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context

    def _handshake_begins(self, peer: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Puts the newest certificates into a handshake. OpenSSL calls this function in each handshake, also when the
        client names no server."""
        now_s = self._now_s()
        if now_s - self._looked_at_s >= self._settings.tls_cert_refresh_check_duration_sec:
            self._looked_at_s = now_s
            self._refresh()
        if self._current is not context:
            peer.context = self._current

    def _refresh(self) -> None:
        """Reads the files again if they have changed. If the new files cannot be used, the old certificates stay in
        use, and the next look tries again."""
        signature = self._sign()
        if signature == self._signature:
            return
        try:
            self._current = self._make()
        except SecurityConfigError as error:
            log.warning("the TLS files have changed and cannot be used; the old ones stay: %s", error)
            return
        self._signature = signature
        log.info("the TLS files have changed; new connections get the new certificate")

    def _sign(self) -> _Signature:
        """Returns the times, sizes and inodes of the files. At least one of these values changes when a file is
        replaced."""
        settings = self._settings
        found = []
        for path in (
            settings.tls_certificate_file_path,
            settings.tls_key_file_path,
            settings.tls_trust_certs_file_path,
        ):
            try:
                stat = os.stat(path)
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)


def version_range(protocols: tuple[str, ...]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """Returns the lowest and the highest of the TLS versions in `protocols`, which holds Java's names. Versions below
    TLSv1.2 are not offered, even if `protocols` names them. Raises SecurityConfigError when `protocols` names no other
    version."""
    versions = sorted(VERSIONS[name] for name in protocols if name in VERSIONS) if protocols else VERSIONS.values()
    if not versions:
        raise SecurityConfigError(f"tlsProtocols: expected {' or '.join(VERSIONS)}, not {', '.join(protocols)}")
    return min(versions), max(versions)


def openssl_ciphers(names: tuple[str, ...]) -> str:
    """Returns a list of ciphers in OpenSSL's format; each of `names` is Java's or OpenSSL's name of a cipher. The
    ciphers of TLS 1.3 are always on, so they are left out."""
    translated = [_openssl_cipher(name) for name in names if not _is_of_tls_1_3(name)]
    return ":".join(translated) or "DEFAULT"


def _is_of_tls_1_3(name: str) -> bool:
    return name.startswith("TLS_") and "_WITH_" not in name


def _openssl_cipher(name: str) -> str:
    """Translates Java's name of a cipher to OpenSSL's: `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` is
    `ECDHE-RSA-AES256-GCM-SHA384`. Any other name is returned as it is."""
    exchange, found, rest = name.removeprefix("TLS_").partition("_WITH_")
    if not found:
        return name
    for size in ("128", "256"):
        rest = rest.replace(f"AES_{size}", f"AES{size}")
    if "CHACHA20" in rest:
        rest = rest.removesuffix("_SHA256")
    rest = rest.replace("_CBC_", "_")
    joined = rest if exchange == "RSA" else f"{exchange}_{rest}"
    return joined.replace("_", "-")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
