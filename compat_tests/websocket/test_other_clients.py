"""Node's package `ws`, and Chromium's own WebSocket: both run `talk.js`. Part of `make clients`.

Chromium is Debian's package `chromium`, without a driver (see `compat_tests/chromium.py`).
"""

import fcntl
import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from compat_tests.chromium import running_chromium
from compat_tests.harness import Server
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


def node_modules() -> Path:
    """A folder from which Node loads `ws`; npm installs it once a user into a cache folder."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        unavailable("needs Node and npm")
    version = json.loads((HERE / "package.json").read_text())["dependencies"]["ws"]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magnetar"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"node-ws-{version}"
    with open(cache / "node-ws.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test runs in parallel install once
        if not folder.exists():
            building = folder.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, building)
            command = ["npm", "ci", "--no-audit", "--no-fund"]
            done = subprocess.run(command, cwd=building, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            if done.returncode != 0:
                unavailable(f"ws cannot be installed: {done.stderr[-500:]}")
            building.rename(folder)
    return folder / "node_modules"


def test_node_talks_over_sockets(server: Server, place: str) -> None:
    environment = {**os.environ, "NODE_PATH": str(node_modules())}
    command = ["node", str(TALK), socket_url(server, ""), place]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.stdout == "ok\n", done.stdout + done.stderr[-2000:]


def test_a_browser_talks_over_sockets(server: Server, place: str, tmp_path: Path) -> None:
    talk = f"{TALK.read_text()}\ntalk(WebSocket, {json.dumps(socket_url(server, ''))}, {json.dumps(place)})"
    with running_chromium(tmp_path) as chromium:
        page = chromium.new_page()
        page.open(f"{server.web_url}/metrics/")
        assert page.value(talk) == "ok"
