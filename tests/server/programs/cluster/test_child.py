"""Supervised children that are scripts: they get ready, die, hang, write nonsense, and are stopped."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from magnetar.server.process.log_lines import JSON, TEXT
from magnetar.server.programs.cluster import child as child_module
from magnetar.server.programs.cluster import child_rules
from magnetar.server.programs.cluster.child import Child, ChildDiedError
from magnetar.server.programs.cluster.child_rules import ChildState

pytestmark = pytest.mark.process

WAIT_SECONDS = 30
READY = 'print(\'{"bookieId": "b"}\', flush=True)\n'
SLEEP = "import time\ntime.sleep(600)\n"


class Scene:
    """Makes children, and tells of their deaths and changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[Child] = []
        self.deaths: list[str] = []
        self.changed = asyncio.Event()

    def child(self, script: str, log_format: str = TEXT) -> Child:
        made = Child(
            "child-1",
            [sys.executable, "-c", script],
            self.folder / "child-1",
            died=self._died,
            changed=self.changed.set,
            log_format=log_format,
        )
        self.children.append(made)
        return made

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def _died(self, child: Child) -> None:
        self.deaths.append(child.name)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    for each in scene.children:
        each.ask_to_stop()
        each.kill()
        async with asyncio.timeout(WAIT_SECONDS):
            await each.stopped()


async def test_it_is_ready_when_it_says_so(scene: Scene) -> None:
    child = scene.child(READY + SLEEP)
    await child.start()
    assert child.state is ChildState.READY
    assert child.ready["bookieId"] == "b"
    os.kill(child.ready["pid"], 0)


async def test_a_child_that_cannot_start_says_why(scene: Scene) -> None:
    script = "import sys\nprint('noise', file=sys.stderr)\nsys.exit('magnetar: port 1 is in use by pid 2')"
    with pytest.raises(ChildDiedError, match=r"^child-1: port 1 is in use by pid 2$"):
        await scene.child(script).start()
    assert not scene.deaths


async def test_a_child_that_says_nothing_is_known_by_its_exit_code(scene: Scene) -> None:
    with pytest.raises(ChildDiedError, match=r"^child-1: it ended with exit code 7$"):
        await scene.child("import sys\nsys.exit(7)").start()


async def test_a_program_that_is_missing_is_an_error(scene: Scene) -> None:
    child = Child("x", ["/no/such/program"], scene.folder, died=scene._died, changed=scene.changed.set)
    with pytest.raises(FileNotFoundError):
        await child.start()


async def test_it_is_started_again_after_its_death_was_cleared_away(scene: Scene) -> None:
    child = scene.child(READY + SLEEP)
    await child.start()
    first = child.ready["pid"]
    os.kill(first, signal.SIGKILL)
    await scene.until(lambda: child.ready.get("pid") not in (None, first))
    assert scene.deaths == ["child-1"]


async def test_one_that_keeps_dying_is_tried_again_and_again(scene: Scene) -> None:
    count = scene.folder / "count"
    script = f"import pathlib, time\np = pathlib.Path({str(count)!r})\nn = len(p.read_text()) if p.exists() else 0\n"
    script += "p.write_text('x' * (n + 1))\n"
    script += f"if n in (0, 3):\n    {READY}    time.sleep(0 if n == 0 else 600)\n"
    child = scene.child(script)
    await child.start()
    await scene.until(lambda: bool(child.ready) and len(count.read_text()) == 4)
    assert scene.deaths == ["child-1"] * 3


async def test_one_that_hangs_in_its_start_is_killed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "START_SECONDS_MAX", 0.2)
    with pytest.raises(ChildDiedError, match="SIGKILL"):
        await scene.child(SLEEP).start()


async def test_one_that_beat_and_stands_still_is_killed_and_started_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(child_rules, "HUNG_SECONDS", 0.2)
    monkeypatch.setattr(child_module, "LOOK_SECONDS", 0.05)
    child = scene.child(READY + "print(chr(0), flush=True)\n" + SLEEP)
    await child.start()
    first = child.ready["pid"]
    await scene.until(lambda: child.ready.get("pid") not in (None, first))
    assert scene.deaths == ["child-1"]
    assert "child-1" not in capfd.readouterr().err, "beats are no lines of the log"


async def test_sigterm_ends_it_and_it_stays_away(scene: Scene) -> None:
    child = scene.child(READY + SLEEP)
    await child.start()
    child.ask_to_stop()
    await child.stopped()
    assert child.state is ChildState.STOPPED
    assert child.is_gone
    assert not scene.deaths


async def test_one_that_ignores_sigterm_needs_sigkill(scene: Scene) -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    child = scene.child(ignoring + READY + SLEEP)
    await child.start()
    child.ask_to_stop()
    child.kill()
    await child.stopped()
    assert child.state is ChildState.STOPPED


async def test_a_stop_in_the_midst_of_the_start_holds(scene: Scene) -> None:
    child = scene.child(READY + SLEEP)
    starting = asyncio.ensure_future(child.start())
    await asyncio.sleep(0)
    child.ask_to_stop()
    await child.stopped()
    assert child.is_gone
    with pytest.raises(ChildDiedError):
        await starting


async def test_a_stop_ends_a_pause(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = scene.folder / "marker"
    script = f"import pathlib\np = pathlib.Path({str(marker)!r})\nif not p.exists():\n    p.write_text('')\n    {READY}"
    monkeypatch.setattr("magnetar.server.programs.cluster.child_rules.PAUSE_FIRST_SECONDS", 600.0)
    monkeypatch.setattr("magnetar.server.programs.cluster.child_rules.PAUSE_SECONDS_MAX", 600.0)
    child = scene.child(script)
    await child.start()
    await scene.until(lambda: len(scene.deaths) == 1)
    async with asyncio.timeout(WAIT_SECONDS):
        while child.state is not ChildState.WAITING:
            await asyncio.wait((asyncio.ensure_future(scene.changed.wait()),), timeout=0.02)
        child.ask_to_stop()
        await child.stopped()


async def test_its_lines_stand_in_the_log_with_its_name(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import os, sys\nos.write(2, b'one\\ntwo \\x1b[31m \\xff\\nlast')\nprint('no json')\n"
    with pytest.raises(ChildDiedError, match=r"last|no json"):
        await scene.child(script).start()
    lines = capfd.readouterr().err.splitlines()
    assert {"child-1   | one", "child-1   | two \\x1b[31m �", "child-1   | last", "child-1   | no json"} <= set(lines)


async def test_in_json_every_line_of_the_log_is_an_object_that_names_the_child(
    scene: Scene, capfd: pytest.CaptureFixture[str]
) -> None:
    script = """import os, sys
os.write(2, b'{"level": "INFO", "message": "ready"}\\nplain \\xff\\n')
print('no json')
"""
    with pytest.raises(ChildDiedError):
        await scene.child(script, JSON).start()
    records = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "child-1" in line]
    assert {"process": "child-1", "level": "INFO", "message": "ready"} in records
    assert {"process": "child-1", "message": "plain \ufffd"} in records
