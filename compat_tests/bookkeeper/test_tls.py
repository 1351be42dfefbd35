"""TLS between clients and bookies, both ways: Apache's client and ours write to Apache's bookie and to ours, with
certificates on both sides."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from compat_tests.bookkeeper.apache_bookkeeper import SMALL_CACHES, running_cluster
from compat_tests.certificates import Authority
from compat_tests.products import interpreter

TOOL_SECONDS = 120
FACTORY = "org.apache.bookkeeper.tls.TLSContextFactory"


def keys(authority: Authority, name: str) -> dict[str, str]:
    """Returns the keys of bk_server.conf for a process that shows the certificate `name`, as a bookie and as a
    client."""
    own = authority.issue(name)
    return {
        "tlsProvider": "JDK",
        "tlsProviderFactoryClass": FACTORY,
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


def simple_test(conf: Path, ensemble: int) -> "subprocess.CompletedProcess[str]":
    words = ["simpletest", "-e", str(ensemble), "-w", str(ensemble), "-a", str(ensemble), "-n", "50"]
    command = [*interpreter(), "-m", "magnetar", "bk", "--conf", str(conf), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)


def write(path: Path, conf: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
    return path


def test_clients_and_bookies_of_both_brands_speak_tls(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    with running_cluster(tmp_path / "cluster") as cluster:
        cluster.start_bookie("ours", **keys(authority, "ours"))
        cluster.apache_bookie("theirs", **SMALL_CACHES, **keys(authority, "theirs")).start()
        common = {"metadataServiceUri": f"zk+hierarchical://{cluster.zookeeper}/ledgers", "allowLoopback": "true"}
        trusted = write(tmp_path / "trusted.conf", common | keys(authority, "client"))
        done = cluster.shell("simpletest", "-e", "2", "-w", "2", "-a", "2", "-n", "50", conf=trusted)
        assert done.returncode == 0, done.stdout
        own = simple_test(trusted, 2)
        assert own.returncode == 0, own.stderr
        assert "Session is protected by" in (cluster.folder / "theirs.log").read_text()
        refused = simple_test(write(tmp_path / "stranger.conf", common | keys(stranger, "nobody")), 2)
        assert refused.returncode != 0
        assert "no writable bookie is left" in refused.stderr
