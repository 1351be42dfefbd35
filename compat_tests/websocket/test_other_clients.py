"""Node's package `ws`, and Chromium's own WebSocket: both run `talk.js`. Part of `make clients`.

Chromium is Debian's package `chromium`, without a driver: the test tells it what to run over its DevTools protocol.
"""

import fcntl
import json
import os
import shutil
import subprocess
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from compat_tests.harness import Server, wait_until
from compat_tests.unavailable import unavailable
from compat_tests.websocket.socket_client import FOLDER, socket_url

HERE = Path(__file__).parent
TALK = HERE / "talk.js"
INSTALL_SECONDS = 120
DEADLINE_SECONDS = 60
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""It asks nothing of hosts outside this machine. Without its sandbox it runs for root and in containers too."""

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
    program = shutil.which("chromium")
    if program is None:
        unavailable("needs Chromium")
    profile = tmp_path / "profile"
    command = [program, *QUIET, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    with (tmp_path / "chromium.log").open("w") as log:
        browser = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        port_file = profile / "DevToolsActivePort"
        wait_until(lambda: port_file.exists() and "\n" in port_file.read_text(), "Chromium is there")
        port, path = port_file.read_text().split("\n")
        said = evaluated(
            f"ws://127.0.0.1:{port}{path}",
            server.web_url + "/metrics/",
            f"{TALK.read_text()}\ntalk(WebSocket, {json.dumps(socket_url(server, ''))}, {json.dumps(place)})",
        )
    finally:
        browser.terminate()
        browser.wait(DEADLINE_SECONDS)
    assert said == "ok"


def evaluated(browser: str, page: str, script: str) -> object:
    """Opens a page and returns what the promise that a script makes there brings."""
    with connect(browser, max_size=None, open_timeout=DEADLINE_SECONDS) as devtools:
        numbers = count(1)

        def call(method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
            message: dict[str, object] = {"id": next(numbers), "method": method, "params": parameters}
            if session is not None:
                message["sessionId"] = session
            devtools.send(json.dumps(message))
            while True:
                answer: dict[str, Any] = json.loads(devtools.recv(timeout=DEADLINE_SECONDS))
                if answer.get("id") == message["id"]:
                    result: dict[str, Any] = answer.get("result", answer)
                    return result

        def value(expression: str) -> object:
            options = {"awaitPromise": True, "returnByValue": True}
            answer = call("Runtime.evaluate", session, expression=expression, **options)
            return answer.get("result", answer).get("value", answer)

        target = call("Target.createTarget", url=page)["targetId"]
        session = str(call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        wait_until(
            lambda: value("`${location.href} ${document.readyState}`") == f"{page} complete", "the page is there"
        )
        return value(script)
