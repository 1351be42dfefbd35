"""The official Node client (a binding of the C++ library) with every feature that it has: `produce.js`, `consume.js`,
….

`MAGNETAR_NODE_CLIENT` may name a `node_modules` folder that holds the client. Otherwise npm installs it once for each
user into a cache folder; its install step fetches a binary that no package registry has.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from threading import Timer

import pytest

from compat_tests.certificates import Authority
from compat_tests.conftest import ServerFactory
from compat_tests.harness import Server
from compat_tests.npm_packages import node_modules
from compat_tests.python.rest import Admin
from compat_tests.security_site import NAMESPACE, running_site
from compat_tests.unavailable import unavailable

HERE = Path(__file__).parent
MODULES_VARIABLE = "MAGNETAR_NODE_CLIENT"
INSTALL_SECONDS = 300
DEADLINE_SECONDS = 300
TOKEN_SECONDS = 4
"""How long a token lives that the client has to renew while it uses it."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def modules() -> Path:
    """Returns a `node_modules` folder from which Node loads the client."""
    if shutil.which("node") is None:
        unavailable("needs Node")
    given = os.environ.get(MODULES_VARIABLE)
    found = Path(given) if given else _installed()
    done = _node(found, "-e", "require('pulsar-client')")
    if done.returncode != 0:
        unavailable(f"the Node client cannot be loaded: {done.stderr[-500:]}")
    return found


def _installed() -> Path:
    wanted = HERE / "package.json"
    version = json.loads(wanted.read_text())["dependencies"]["pulsar-client"]
    return node_modules("node-client", version, ["ci"], INSTALL_SECONDS, [wanted, HERE / "package-lock.json"])


def _node(modules: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", *arguments],
        env={**os.environ, "NODE_PATH": str(modules), **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )


def failures_of(done: subprocess.CompletedProcess[str], count: int) -> Mapping[str, str]:
    """Returns, by name, what the program says went wrong. The program must have reported `count` checks."""
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert len(said) == count, said.keys()
    return {name: result for name, result in said.items() if result != "ok"}


def make_keys(folder: Path) -> None:
    """Makes an RSA key pair for end-to-end encryption of messages."""
    private, public = folder / "private.pem", folder / "public.pem"
    subprocess.run(["openssl", "genrsa", "-out", str(private), "2048"], check=True, capture_output=True)
    command = ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize(("program", "count"), [("produce", 23), ("consume", 21), ("topics", 29)])
def test_every_feature(server: Server, modules: Path, tmp_path: Path, program: str, count: int) -> None:
    if shutil.which("openssl") is None:
        unavailable("needs openssl")
    make_keys(tmp_path)
    admin = Admin(server)
    if "public/sealed" not in admin.get("namespaces/public"):
        admin.put("namespaces/public/sealed")
    done = _node(modules, str(HERE / f"{program}.js"), server.broker_url, server.web_url, CHECK_KEYS=str(tmp_path))
    assert failures_of(done, count) == {}


def test_who_may_come_in_and_what_they_may_do(modules: Path, tmp_path: Path) -> None:
    with running_site(tmp_path) as site:
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path / "other", "stranger").issue("admin")
        stranger.certificate.rename(tmp_path / "stranger.cert.pem")
        stranger.key.rename(tmp_path / "stranger.key.pem")
        tokens = {role: site.token(role) for role in ("alice", "bob", "admin")}
        tokens |= {"brief": site.token("alice", TOKEN_SECONDS), "forged": site.token("admin")[:-6] + "AAAAAA"}
        address = site.server.address
        urls = [address.broker_url, address.broker_url_tls, address.web_url_tls]
        arguments = [str(HERE / "secure.js"), *urls, str(tmp_path), NAMESPACE]
        assert failures_of(_node(modules, *arguments, CHECK_TOKENS=json.dumps(tokens)), 14) == {}


@pytest.mark.parametrize("batching", ["batched", "single"])
def test_a_kill_loses_nothing_and_keeps_the_order(make_server: ServerFactory, modules: Path, batching: str) -> None:
    server = make_server()
    server.start()
    process = subprocess.Popen(
        ["node", str(HERE / "killed.js"), server.broker_url, batching],
        env={**os.environ, "NODE_PATH": str(modules)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    late = Timer(DEADLINE_SECONDS, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started=ok\n"
        for _ in range(2):
            server.kill()
            server.start()
        assert process.stdout.read() == "killed=ok\n"
    finally:
        late.cancel()
        process.kill()
        process.wait()
