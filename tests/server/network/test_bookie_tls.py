"""TLS between brokers and bookies: which keys switch it on, what is refused, and files that change."""

import os
import ssl
from pathlib import Path

import pytest

from compat_tests.certificates import Authority
from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.bookie_tls_settings import JAVA_FACTORY, BookieTls
from magnetar.server.config.broker_config import ConfigError, ServerConfig, load_config
from magnetar.server.config.broker_keys import BROKER_KEYS
from magnetar.server.network.bookie_tls import RefreshedContext, bookie_port_tls, bookie_wire, broker_wire
from magnetar.storage.ledger.wire_config import WireConfig

CLEAR = WireConfig()


def broker_keys(folder: Path) -> dict[str, str]:
    authority = Authority(folder)
    own = authority.issue("broker")
    return {
        "bookkeeperTLSClientAuthentication": "true",
        "bookkeeperTLSCertificateFilePath": str(own.certificate),
        "bookkeeperTLSKeyFilePath": str(own.key),
        "bookkeeperTLSTrustCertsFilePath": str(authority.path),
    }


def bookie_keys(folder: Path) -> dict[str, str]:
    authority = Authority(folder)
    own = authority.issue("bookie")
    return {
        "tlsProviderFactoryClass": JAVA_FACTORY,
        "tlsClientAuthentication": "true",
        "tlsCertificatePath": str(own.certificate),
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": str(own.key),
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": str(authority.path),
        "clientKeyStoreType": "PEM",
        "clientKeyStore": str(own.key),
        "clientTrustStoreType": "PEM",
        "clientTrustStore": str(authority.path),
    }


def of_broker(keys: dict[str, str]) -> ServerConfig:
    return load_config(None, keys, BROKER_KEYS)


def of_bookie(keys: dict[str, str]) -> ServerConfig:
    return load_config(None, keys, BOOKIE_KEYS)


def test_a_broker_speaks_tls_when_the_switch_is_on(tmp_path: Path) -> None:
    keys = broker_keys(tmp_path)
    wire = broker_wire(of_broker(keys), CLEAR)
    assert wire.tls is not None
    context = wire.tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    off = keys | {"bookkeeperTLSClientAuthentication": "false", "bookkeeperTLSKeyFileType": "JKS"}
    assert broker_wire(of_broker(off), CLEAR) is CLEAR, "Apache's broker reads none of the keys then"


def test_a_bookie_has_tls_for_its_port_and_for_its_own_clients(tmp_path: Path) -> None:
    keys = bookie_keys(tmp_path)
    port = bookie_port_tls(of_bookie(keys).fill(BookieTls))
    assert port is not None
    assert port().verify_mode == ssl.CERT_REQUIRED
    assert bookie_wire(of_bookie(keys), CLEAR).tls is not None
    anybody = bookie_port_tls(of_bookie(keys | {"tlsClientAuthentication": "false"}).fill(BookieTls))
    assert anybody is not None
    assert anybody().verify_mode == ssl.CERT_NONE
    assert bookie_wire(of_bookie(keys | {"clientTrustStore": ""}), CLEAR) is CLEAR
    for off in ({}, {"tlsProviderFactoryClass": ""}, {"tlsProviderFactoryClass": "null"}):
        assert bookie_port_tls(of_bookie(off).fill(BookieTls)) is None
        assert bookie_wire(of_bookie(off), CLEAR) is CLEAR


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"bookkeeperTLSKeyFileType": "JKS"}, r"--set: bookkeeperTLSKeyFileType=JKS: .*PEM files are"),
        ({"bookkeeperTLSTrustCertTypes": "PKCS12"}, r"--set: bookkeeperTLSTrustCertTypes=PKCS12: .*PEM files are"),
        ({"bookkeeperTLSProviderFactoryClass": "org.example.Tls"}, "bookkeeperTLSProviderFactoryClass=org.example.Tls"),
        ({"bookkeeperTLSCertificateFilePath": ""}, "needs bookkeeperTLSCertificateFilePath"),
        ({"bookkeeperTLSKeyFilePath": ""}, "needs bookkeeperTLSKeyFilePath"),
        ({"bookkeeperTLSTrustCertsFilePath": ""}, "needs bookkeeperTLSTrustCertsFilePath"),
        ({"bookkeeperTLSKeyFilePath": "/nowhere"}, "the key /nowhere cannot be used"),
        ({"bookkeeperTLSTrustCertsFilePath": "/nowhere"}, "the authorities /nowhere cannot be used"),
    ],
)
def test_what_a_broker_cannot_use_is_named(tmp_path: Path, change: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        broker_wire(of_broker(broker_keys(tmp_path) | change), CLEAR)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tlsKeyStoreType": ""}, "tlsKeyStoreType=JKS is a kind of key store"),
        ({"tlsTrustStoreType": "JKS"}, "tlsTrustStoreType=JKS is a kind of key store"),
        ({"clientTrustStoreType": "JKS"}, "clientTrustStoreType=JKS is a kind of key store"),
        ({"clientKeyStoreType": "JKS"}, "clientKeyStoreType=JKS is a kind of key store"),
        ({"clientKeyStore": ""}, "need clientKeyStore"),
        ({"tlsProviderFactoryClass": "org.example.Tls"}, "tlsProviderFactoryClass=org.example.Tls"),
        ({"tlsCertificatePath": ""}, "TLS needs tlsCertificatePath"),
        ({"tlsKeyStore": ""}, "TLS needs tlsKeyStore"),
        ({"tlsTrustStore": ""}, "TLS needs tlsTrustStore"),
        ({"tlsEnabledProtocols": "SSLv3"}, "tlsEnabledProtocols: none of SSLv3"),
        ({"tlsEnabledCipherSuites": "TLS_NO_WITH_SUCH"}, "tlsEnabledCipherSuites: none of"),
    ],
)
def test_what_a_bookie_cannot_use_is_named(tmp_path: Path, change: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        bookie_port_tls(of_bookie(bookie_keys(tmp_path) | change).fill(BookieTls))


def test_files_that_change_are_read_again_and_old_ones_stay_when_the_new_ones_cannot_be_used(tmp_path: Path) -> None:
    now = [100.0]
    keys = broker_keys(tmp_path)
    wire = broker_wire(of_broker(keys), CLEAR)
    assert isinstance(wire.tls, RefreshedContext)
    wire.tls._now_s = lambda: now[0]
    wire.tls._looked_at_s = now[0]
    first = wire.tls()
    key = Path(keys["bookkeeperTLSKeyFilePath"])
    good = key.read_text()
    key.write_text("no key")
    now[0] += 299
    assert wire.tls() is first, "300 seconds are the default of the broker"
    now[0] += 1
    assert wire.tls() is first, "the new file is no key"
    key.write_text(good)
    os.utime(key, ns=(1, 1))
    now[0] += 300
    second = wire.tls()
    assert second is not first
    now[0] += 300
    assert wire.tls() is second
