"""SSL contexts for connections between brokers and bookies, made from PEM files and made again when the files change.

Source: TLSContextFactory of BookKeeper. As there, the name in a bookie's certificate is not compared with the bookie's
address (tlsHostnameVerificationEnabled is off by default, and Apache's broker does not set it): whoever has a
certificate of the authority counts as a bookie.
"""

import logging
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from magnetar.server.config.bookie_tls_settings import BookieTls, BrokerBookieTls
from magnetar.server.config.broker_config import ConfigError, ServerConfig
from magnetar.server.network.tls import openssl_ciphers, version_range
from magnetar.server.security.security_errors import SecurityConfigError
from magnetar.storage.ledger.wire_config import WireConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PemFiles:
    """The files of one side. An empty path stands for a file that this side does not use."""

    certificate: str = ""
    key: str = ""
    key_password: str = ""
    """The file with the password of the key."""
    trust: str = ""
    """The certificates of the authorities whose certificates the other side may show."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.certificate, self.key, self.key_password, self.trust) if path)


class RefreshedContext:
    """The SSL context of one side. The object is called for each new connection."""

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: PemFiles,
        refresh_seconds: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the first context. With `refresh_seconds` of 0 the files are never looked at again. Raises
        ConfigError."""
        self._make = make
        self._files = files
        self._refresh_seconds = refresh_seconds
        self._now_s = now_s
        self._looked_at_s = now_s()
        self._signature = self._sign()
        self._context = make()

    def __call__(self) -> ssl.SSLContext:
        """Returns the context to use now. While files that have changed cannot be used, this is the old context, and
        each look tries again."""
        now_s = self._now_s()
        if 0 < self._refresh_seconds <= now_s - self._looked_at_s:
            self._looked_at_s = now_s
            signature = self._sign()
            if signature != self._signature:
                try:
                    self._context = self._make()
                    self._signature = signature
                    log.info("the TLS files for bookies were read again: %s", ", ".join(self._files.paths))
                except ConfigError as error:
                    log.warning("the TLS files for bookies have changed and are not used: %s", error)
        return self._context

    def _sign(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_signature_of, self._files.paths))


def client_context(files: PemFiles) -> ssl.SSLContext:
    """Returns the context of a client of bookies. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)
    return context


def server_context(files: PemFiles, protocols: tuple[str, ...], ciphers: tuple[str, ...]) -> ssl.SSLContext:
    """Returns the context of a bookie's port. With authorities in `files`, clients have to show a certificate. Raises
    ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.minimum_version, context.maximum_version = version_range(protocols)
    except SecurityConfigError:
        raise ConfigError(f"tlsEnabledProtocols: none of {', '.join(protocols)} is spoken here") from None
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        if ciphers:
            context.set_ciphers(openssl_ciphers(ciphers))
    except ssl.SSLError:
        raise ConfigError(f"tlsEnabledCipherSuites: none of {', '.join(ciphers)} is known here") from None
    _load(context, files)
    if files.trust:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def bookie_port_tls(settings: BookieTls) -> RefreshedContext | None:
    """Returns the contexts for the port of a bookie, or None when TLS is off. Raises ConfigError."""
    if not settings.is_on:
        return None
    trust = settings.tls_trust_store if settings.tls_client_authentication else ""
    password = settings.tls_key_store_password_path
    files = PemFiles(settings.tls_certificate_path, settings.tls_key_store, password, trust)

    def make() -> ssl.SSLContext:
        return server_context(files, settings.tls_enabled_protocols, settings.tls_enabled_cipher_suites)

    return RefreshedContext(make, files, settings.tls_cert_files_refresh_duration_seconds)


def broker_wire(config: ServerConfig, wire: WireConfig) -> WireConfig:
    """Returns the settings of a broker's connections to bookies, with TLS if broker.conf switches it on. Raises
    ConfigError."""
    settings = config.fill(BrokerBookieTls)
    if not settings.tls_to_bookies:
        return wire
    password = settings.bookie_tls_key_password_path
    files = PemFiles(settings.bookie_tls_certificate, settings.bookie_tls_key, password, settings.bookie_tls_trust)
    return replace(
        wire, tls=RefreshedContext(lambda: client_context(files), files, settings.bookie_tls_refresh_seconds)
    )


def bookie_wire(config: ServerConfig, wire: WireConfig) -> WireConfig:
    """Returns the settings of the connections that a bookie's process makes to bookies (auto-recovery, tools), with TLS
    if bk_server.conf switches it on. Raises ConfigError."""
    settings = config.fill(BookieTls)
    if not settings.clients_speak_tls:
        return wire
    files = PemFiles(trust=settings.client_trust_store)
    if settings.tls_client_authentication:
        password = settings.client_key_store_password_path
        files = replace(
            files, certificate=settings.tls_certificate_path, key=settings.client_key_store, key_password=password
        )
    refresh_seconds = settings.tls_cert_files_refresh_duration_seconds
    return replace(wire, tls=RefreshedContext(lambda: client_context(files), files, refresh_seconds))


def _load(context: ssl.SSLContext, files: PemFiles) -> None:
    try:
        if files.certificate:
            password = Path(files.key_password).read_text().strip() if files.key_password else ""
            context.load_cert_chain(files.certificate, files.key, password=password)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"TLS to bookies: the certificate {files.certificate} with the key {files.key} cannot be used: {error}"
        ) from None
    try:
        if files.trust:
            context.load_verify_locations(files.trust)
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS to bookies: the authorities {files.trust} cannot be used: {error}") from None


def _signature_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
