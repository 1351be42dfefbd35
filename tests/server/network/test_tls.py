"""TLS contexts: which clients are let in, which certificate they see, and the errors of files that cannot be used."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat_tests.certificates import Authority, Certificate
from magnetar.server.config.security_settings import TlsSettings
from magnetar.server.network.tls import ServerTls, openssl_ciphers, version_range
from magnetar.server.security.security_errors import SecurityConfigError
from magnetar.server.security.tls_provider import common_name_of


class Site:
    """A certificate authority, the files of a server, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.server = self.authority.issue("server")
        self.now_s = 0.0
        self.settings = TlsSettings(
            tls_certificate_file_path=str(self.server.certificate),
            tls_key_file_path=str(self.server.key),
            tls_trust_certs_file_path=str(self.authority.path),
            tls_cert_refresh_check_duration_sec=60,
        )

    def make(self, **changes: Any) -> ServerTls:
        return ServerTls(replace(self.settings, **changes), now_s=lambda: self.now_s)

    def client(self, certificate: Certificate | None = None, trust: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=trust or self.authority.path)
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        return context


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def shake_hands(tls: ServerTls, client: ssl.SSLContext) -> tuple[str | None, Any]:
    """Returns the client's certificate as the server sees it, and the server's as the client sees it. Raises the error
    that the client gets."""
    seen: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(common_name_of(writer.get_extra_info("peercert")))
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        certificate = writer.get_extra_info("peercert")
        try:
            if await reader.read(5) != b"hello":
                raise ConnectionResetError("the server hung up")
        finally:
            writer.close()
        return await seen, certificate


async def test_a_client_certificate_of_the_authority_gives_its_common_name(site: Site) -> None:
    assert (await shake_hands(site.make(), site.client(site.authority.issue("alice"))))[0] == "alice"


async def test_a_client_without_a_certificate_is_let_in_unless_one_is_required(site: Site) -> None:
    assert (await shake_hands(site.make(), site.client()))[0] is None
    with pytest.raises(OSError):
        await shake_hands(site.make(tls_require_trusted_client_cert_on_connect=True), site.client())


async def test_a_certificate_of_another_authority_is_refused_and_the_log_says_so(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "stranger").issue("admin")
    with pytest.raises(OSError):
        await shake_hands(site.make(), site.client(stranger))
    assert [record.getMessage() for record in caplog.records] == [
        "a TLS handshake failed: unable to get local issuer certificate"
    ]


async def test_an_unchecked_certificate_proves_nothing(site: Site, tmp_path: Path) -> None:
    """With tlsAllowInsecureConnection its client is let in, but not in the role that the certificate names."""
    stranger = Authority(tmp_path, "stranger").issue("admin")
    for changes in ({"tls_allow_insecure_connection": True}, {"tls_trust_certs_file_path": ""}):
        assert (await shake_hands(site.make(**changes), site.client(stranger)))[0] is None


async def test_a_renewed_certificate_is_shown_after_the_next_look(site: Site) -> None:
    tls = site.make()
    first = (await shake_hands(tls, site.client()))[1]["serialNumber"]
    site.authority.issue("server")
    site.now_s = 59
    assert (await shake_hands(tls, site.client()))[1]["serialNumber"] == first
    site.now_s = 60
    renewed = (await shake_hands(tls, site.client()))[1]["serialNumber"]
    assert renewed != first
    assert (await shake_hands(tls, site.client()))[1]["serialNumber"] == renewed


async def test_an_authority_that_is_no_longer_trusted_is_refused_after_the_next_look(
    site: Site, tmp_path: Path
) -> None:
    tls = site.make()
    alice = site.authority.issue("alice")
    assert (await shake_hands(tls, site.client(alice)))[0] == "alice"
    other = Authority(tmp_path, "other")
    trusted = site.authority.path.read_bytes()
    site.authority.path.write_bytes(other.path.read_bytes())
    (tmp_path / "old.pem").write_bytes(trusted)
    site.now_s = 60
    with pytest.raises(OSError):
        await shake_hands(tls, site.client(alice, tmp_path / "old.pem"))
    assert (await shake_hands(tls, site.client(other.issue("bob"), tmp_path / "old.pem")))[0] == "bob"


async def test_renewed_files_that_cannot_be_used_leave_the_old_ones_in_place(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    tls = site.make()
    first = (await shake_hands(tls, site.client()))[1]["serialNumber"]
    site.server.certificate.write_text("half a file")
    site.now_s = 60
    assert (await shake_hands(tls, site.client()))[1]["serialNumber"] == first
    assert "the old ones stay" in caplog.text
    site.authority.issue("server")
    site.now_s = 120
    assert (await shake_hands(tls, site.client()))[1]["serialNumber"] != first


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tls_certificate_file_path": ""}, "needs tlsCertificateFilePath and tlsKeyFilePath"),
        ({"tls_key_file_path": "/nowhere.pem"}, "No such file"),
        ({"tls_trust_certs_file_path": "/nowhere.pem"}, "tlsTrustCertsFilePath: /nowhere.pem cannot be used"),
        ({"tls_ciphers": ("nonsense",)}, "tlsCiphers: none of nonsense is known here"),
        ({"tls_protocols": ("SSLv3", "TLSv1")}, "expected TLSv1.2 or TLSv1.3, not SSLv3, TLSv1"),
    ],
)
def test_what_cannot_be_used_is_named(site: Site, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SecurityConfigError) as caught:
        site.make(**changes)
    assert said in str(caught.value)


def test_a_key_of_another_certificate_is_named(site: Site) -> None:
    with pytest.raises(SecurityConfigError, match="cannot be used"):
        site.make(tls_key_file_path=str(site.authority.issue("other").key))


async def test_protocols_and_ciphers_are_those_configured(site: Site) -> None:
    tls = site.make(tls_protocols=("TLSv1.2",), tls_ciphers=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",))
    context = site.client()
    await shake_hands(tls, context)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(OSError):
        await shake_hands(tls, context)
    other = site.client()
    other.maximum_version = ssl.TLSVersion.TLSv1_2
    other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises(OSError):
        await shake_hands(tls, other)


@pytest.mark.parametrize(
    ("jsse", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_jsses_names_of_ciphers_are_openssls(jsse: str, openssl: str) -> None:
    assert openssl_ciphers((jsse,)) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)


def test_ciphers_of_tls_1_3_cannot_be_chosen_and_do_no_harm() -> None:
    assert openssl_ciphers(("TLS_AES_256_GCM_SHA384",)) == "DEFAULT"


def test_old_protocols_are_not_offered() -> None:
    assert version_range(()) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert version_range(("TLSv1", "TLSv1.2")) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(
    ("subject", "role"),
    [
        (((("organizationName", "x"),), (("commonName", "alice"),)), "alice"),
        (((("commonName", "outer"),), (("commonName", "inner"),)), "inner"),
        (((("organizationName", "x"), ("commonName", "alice")),), "alice"),
        (((("organizationName", "x"),),), None),
        (((("commonName", ""),),), None),
        ((), None),
    ],
)
def test_the_role_is_the_most_specific_common_name(subject: Any, role: str | None) -> None:
    assert common_name_of({"subject": subject}) == role
    assert common_name_of(None) is None
