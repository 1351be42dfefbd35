"""A server's certificate is judged on every Python as Java judges it."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.certificates import Authority, Certificate
from magnetar.server.tools.connection.server_trust import trusting_context

DEFAULT_CONTEXT = ssl.create_default_context


@contextmanager
def tls_port(certificate: Certificate) -> Iterator[int]:
    """A port that shakes hands with one client and says hello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as secure:
                    secure.sendall(b"hello")
            except OSError:
                plain.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def greeting(port: int, context: ssl.SSLContext) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return secure.recv(5)


def strict_context(cafile: str | None = None) -> ssl.SSLContext:
    """Python's default context as it is since 3.13."""
    context = DEFAULT_CONTEXT(cafile=cafile)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@pytest.fixture(autouse=True)
def strict_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", strict_context)


def test_a_certificate_that_does_not_name_its_authority_s_key_is_taken(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("server", key_identifier=False)
    with tls_port(certificate) as port, pytest.raises(ssl.SSLCertVerificationError, match="Authority Key Identifier"):
        greeting(port, ssl.create_default_context(cafile=str(authority.path)))
    with tls_port(certificate) as port:
        assert greeting(port, trusting_context(str(authority.path))) == b"hello"


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    for trusted in (str(other.path), None, ""):
        with tls_port(authority.issue("server")) as port, pytest.raises(ssl.SSLCertVerificationError):
            greeting(port, trusting_context(trusted))
