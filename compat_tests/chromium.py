"""Runs Debian's Chromium without a window and speaks to it over its DevTools protocol; no driver is needed.

A test opens pages, runs scripts in them, presses keys, and asks what the page complained about: uncaught exceptions and
violations of the page's content security policy are kept as `complaints`.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from compat_tests.harness import wait_until
from compat_tests.unavailable import unavailable

DEADLINE_SECONDS = 60
INSTALL_SECONDS = 300
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
"""It asks nothing of hosts outside this machine. Without its sandbox it runs for root and in containers too."""

KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "Delete": (46, ""), " ": (32, " ")}
"""The keys that tests press, with their codes and what they type."""


def program() -> str:
    """Returns the path of Chromium. In CI, where tests run as root on a fresh machine, it is installed first. Ends the
    test when there is no Chromium."""
    found = shutil.which("chromium")
    if found is None and os.environ.get("CI") == "true" and os.geteuid() == 0 and shutil.which("apt-get"):
        with open(Path(tempfile.gettempdir()) / "magnetar-chromium.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # test runs in parallel install once
            for command in (["apt-get", "update"], ["apt-get", "install", "-y", "chromium"]):
                subprocess.run(command, capture_output=True, timeout=INSTALL_SECONDS, check=False)
        found = shutil.which("chromium")
    return found or unavailable("needs Chromium")


class Page:
    """One page of a running Chromium."""

    def __init__(self, browser: "Chromium", target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self._session = session
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Makes a call of the DevTools protocol and returns its result. Raises AssertionError when it is refused."""
        return self._browser.call(method, self._session, **parameters)

    def open(self, url: str) -> None:
        """Loads a page anew, also when only the part behind `#` differs, and waits until its scripts have run."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'", "the empty page")
        self.call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'", url)

    def value(self, script: str) -> Any:
        """Returns what a script (or the promise that it makes) brings. Raises AssertionError when it throws."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, script: str, what: str) -> None:
        """Waits until a script says true. Raises TimeoutError, which tells what the page shows instead."""
        try:
            wait_until(lambda: bool(self.value(f"Boolean({script})")), what)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the page shows: {self.text()[:2000]}") from None

    def text(self) -> str:
        """Returns the text of the page, as a reader sees it."""
        return str(self.value("document.body?.innerText ?? ''"))

    def press(self, key: str, *, shift: bool = False) -> None:
        """Presses and releases a key of KEYS."""
        code, text = KEYS[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Types a text where the focus is."""
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int = 800) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme: str) -> None:
        """Has pages drawn for a user who prefers `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def to_front(self) -> None:
        """Makes this page the visible one, as the newest page is otherwise."""
        self.call("Page.bringToFront")

    def screenshot(self) -> bytes:
        """Returns what is visible as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    @property
    def complaints(self) -> list[str]:
        """What the page complained about so far: uncaught exceptions and violations of its content security policy."""
        self.value("0")  # Events that came before are read now.
        return [told for session, told in self._browser.complaints if session == self._session]

    def close(self) -> None:
        self._browser.call("Target.closeTarget", None, targetId=self._target)


class Chromium:
    """A running Chromium. The test's thread reads the events of all pages whenever it makes a call."""

    def __init__(self, devtools: ClientConnection) -> None:
        self._devtools = devtools
        self._numbers = count(1)
        self.complaints: list[tuple[str, str]] = []
        """The complaints of all pages, each with the page's session."""

    def new_page(self) -> Page:
        target = str(self.call("Target.createTarget", None, url="about:blank")["targetId"])
        session = self.call("Target.attachToTarget", None, targetId=target, flatten=True)["sessionId"]
        return Page(self, target, str(session))

    def call(self, method: str, session: str | None, **parameters: object) -> dict[str, Any]:
        message: dict[str, object] = {"id": next(self._numbers), "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._devtools.send(json.dumps(message))
        while True:
            answer: dict[str, Any] = json.loads(self._devtools.recv(timeout=DEADLINE_SECONDS))
            if answer.get("id") == message["id"]:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        session, parameters = str(event.get("sessionId")), event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append((session, json.dumps(parameters["exceptionDetails"])))
        elif event.get("method") == "Log.entryAdded":
            entry = parameters["entry"]
            if entry["source"] == "security" or "Content Security Policy" in entry["text"]:
                self.complaints.append((session, entry["text"]))


@contextmanager
def running_chromium(
    folder: Path, *, within: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Iterator[Chromium]:
    """Starts Chromium with a profile of its own in the folder, and stops it at the end. `within` is a command that
    becomes Chromium, whose command line follows it; `environment` is added to that of the test."""
    profile = folder / "profile"
    command = [*within, program(), *QUIET, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    with (folder / "chromium.log").open("w") as log:
        browser = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(environment or {})})
    try:
        port_file = profile / "DevToolsActivePort"
        wait_until(lambda: port_file.exists() and "\n" in port_file.read_text(), "Chromium is there")
        port, path = port_file.read_text().split("\n")
        url = f"ws://127.0.0.1:{port}{path}"
        with connect(url, max_size=None, open_timeout=DEADLINE_SECONDS, ping_interval=None) as devtools:
            yield Chromium(devtools)
    finally:
        browser.terminate()
        browser.wait(DEADLINE_SECONDS)
