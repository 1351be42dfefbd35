"""A Chromium that logs in with a client certificate: it has the certificate in its own key store, and a policy that
says to which servers it is sent without a question.

The key store is Network Security Services' in a home folder of the test's own. Chromium reads policies from /etc only,
so it runs in a mount namespace where /etc/chromium is a folder of its own; that needs root.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from compat_tests.certificates import Certificate
from compat_tests.chromium import Chromium, program, running_chromium
from compat_tests.unavailable import unavailable

SECONDS_MAX = 120
PACKAGE = "libnss3-tools"
"""Debian's package with certutil and pk12util, which write the key store."""
POLICIES = "/etc/chromium/policies/managed"
WITH_OWN_POLICIES = f'mount -t tmpfs tmpfs /etc/chromium && mkdir -p {POLICIES} && exec "$0" "$@"'
IN_NAMESPACE = ("unshare", "--mount", "sh", "-c", WITH_OWN_POLICIES)
"""Runs the command that follows where no policies are. The mount ends with the command."""


@contextmanager
def chromium_with_certificate(
    folder: Path, authority: Path, certificate: Certificate, server: str
) -> Iterator[Chromium]:
    """Starts a Chromium that trusts the authority and sends the certificate to the server, whose URL is given. Ends the
    test where that cannot be done."""
    program()  # Where Chromium is installed only now, /etc/chromium is made by that.
    if subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("may not mount a folder over /etc/chromium that nobody else sees")
    store = folder / ".pki" / "nssdb"
    store.mkdir(parents=True)
    bundle = folder / "client.p12"
    key = load_pem_private_key(certificate.key.read_bytes(), None)
    made = load_pem_x509_certificate(certificate.certificate.read_bytes())
    bundle.write_bytes(serialize_key_and_certificates(b"client", key, made, None, NoEncryption()))  # type: ignore[arg-type]
    database = f"sql:{store}"
    _run(folder, "certutil", "-N", "-d", database, "--empty-password")
    _run(folder, "certutil", "-A", "-d", database, "-n", "authority", "-t", "C,,", "-i", str(authority))
    _run(folder, "pk12util", "-i", str(bundle), "-d", database, "-W", "")
    policy = folder / "policy.json"
    policy.write_text(json.dumps({"AutoSelectCertificateForUrls": [json.dumps({"pattern": server, "filter": {}})]}))
    within = [*IN_NAMESPACE, "sh", "-c", f'cp "$0" {POLICIES} && exec "$@"', str(policy)]
    with running_chromium(folder, within=within, environment={"HOME": str(folder)}) as browser:
        yield browser


def _run(folder: Path, tool: str, *arguments: str) -> None:
    found = shutil.which(tool) or _downloaded(folder, tool)
    done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, f"{tool}: {done.stderr}"


def _downloaded(folder: Path, tool: str) -> str:
    """Returns the path of a tool of PACKAGE, which is unpacked into the folder and not installed. Ends the test when it
    cannot be had."""
    unpacked = folder / PACKAGE
    path = unpacked / "usr" / "bin" / tool
    if not path.exists():
        for command in (["apt-get", "update"], ["apt-get", "download", PACKAGE]):
            subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS_MAX, check=False)
        for package in folder.glob(f"{PACKAGE}_*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, timeout=SECONDS_MAX)
    return str(path) if path.exists() else unavailable(f"needs {tool} of Debian's package {PACKAGE}")
