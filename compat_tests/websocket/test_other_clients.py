"""Node's package `ws`, and Chromium's own WebSocket: both run `talk.js`. Part of `make clients`.

Chromium is Debian's package `chromium`, without a driver (see `compat_tests/chromium.py`).
"""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from compat_tests.chromium import running_chromium
from compat_tests.harness import Server
from compat_tests.npm_packages import node_modules
from compat_tests.unavailable import unavailable
from compat_tests.websocket.socket_client import FOLDER, socket_url

HERE = Path(__file__).parent
TALK = HERE / "talk.js"
INSTALL_SECONDS = 120
DEADLINE_SECONDS = 60
pytestmark = pytest.mark.slow


@pytest.fixture
def place() -> str:
    return f"{FOLDER}/talk-{uuid.uuid4().hex[:8]}"


def modules_with_ws() -> Path:
    """Returns a folder from which Node loads `ws`."""
    if shutil.which("node") is None:
        unavailable("needs Node")
    wanted = HERE / "package.json"
    version = json.loads(wanted.read_text())["dependencies"]["ws"]
    return node_modules("node-ws", version, ["ci"], INSTALL_SECONDS, [wanted, HERE / "package-lock.json"])


def test_node_talks_over_sockets(server: Server, place: str) -> None:
    environment = {**os.environ, "NODE_PATH": str(modules_with_ws())}
    command = ["node", str(TALK), socket_url(server, ""), place]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.stdout == "ok\n", done.stdout + done.stderr[-2000:]


def test_a_browser_talks_over_sockets(server: Server, place: str, tmp_path: Path) -> None:
    talk = f"{TALK.read_text()}\ntalk(WebSocket, {json.dumps(socket_url(server, ''))}, {json.dumps(place)})"
    with running_chromium(tmp_path) as chromium:
        page = chromium.new_page()
        page.open(f"{server.web_url}/metrics/")
        assert page.value(talk) == "ok"
