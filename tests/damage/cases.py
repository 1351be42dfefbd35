"""One cell of the matrix, from the harm to the verdict."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from magnetar.server.process.running import StartError
from magnetar.server.programs.standalone import Standalone
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.checkpoint import FlushState
from tests.damage import judge
from tests.damage.exposure import exposed, looks_unfinished
from tests.damage.harm import END, HARMS, Harm, NothingToDo
from tests.damage.kinds import NO_DATA, kinds_of
from tests.damage.scenery import Position, Receipts, Scene
from tests.waiting import until

SKIP = "skipDamagedJournal=true"
NONE: set[Position] = set()


class Case(NamedTuple):
    scene: str
    """The state of the server: `killed`, `stopped`, or `running`, which is the killed one, started again and damaged
    while it runs."""
    kind: str
    harm: str
    seed: str


class Verdict(NamedTuple):
    case: Case
    harm: str
    outcome: str
    """What came of the harm: `right`, `refused`, `unreadable` or `nothing to do`."""
    complaints: list[str]


def all_cases(scenes: dict[str, Scene], rounds: int, seed: int) -> Iterator[Case]:
    for round_number in range(rounds):
        for name in ("killed", "stopped", "running"):
            for kind in kinds_of(scenes["stopped" if name == "stopped" else "killed"].folder):
                for harm in HARMS:
                    yield Case(name, kind, harm, f"{seed}/{round_number}/{name}/{kind}/{harm}")


def copy_if_there(source: str, target: str) -> None:
    """Copies a file of a folder in which a server may be running: what it has replaced or deleted since the folder was
    listed is left out."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


async def at_rest(bookie: Bookie) -> None:
    """Returns when no checkpoint is under way. The replay of a journal begins one when it has filled half of the cache,
    and its thread would write to the files while they are copied and harmed: what it writes in between would be in the
    harmed file, but not in the copy which says what the harm can have touched."""
    await until(lambda: bookie._checkpointer.state is not FlushState.FLUSHING)


class Trial:
    """Runs one case in a folder of its own. `run` may be called once."""

    def __init__(self, case: Case, scenes: dict[str, Scene], folder: Path) -> None:
        self._case = case
        self._scene = scenes["stopped" if case.scene == "stopped" else "killed"]
        self._folder = folder / "data"
        self._before = folder / "before"
        self._image = folder / "image"
        self._harmed = folder / "harmed.log"
        """Another name of the harmed file, under which a deleted entry log can still be read."""
        self._rng = Random(case.seed)
        self._receipts = judge.copy_of(self._scene.receipts)
        self._complaints: list[str] = []
        self._errors = judge.Errors()
        self._exposed: set[Position] = NONE
        self._silent: set[Position] = NONE
        """The receipts whose messages may be missing although neither log nor error says so."""

    async def run(self) -> Verdict:
        shutil.copytree(self._scene.folder, self._folder)
        with captured(self._errors):
            try:
                if self._case.scene == "running":
                    harm, outcome = await self._harm_under_the_server()
                else:
                    harm = self._harm()
                    outcome = await self._judge(harm)
            except NothingToDo:
                return Verdict(self._case, "", "nothing to do", [])
        return Verdict(self._case, f"{harm.file.relative_to(self._folder)} {harm.what}", outcome, self._complaints)

    def _harm(self) -> Harm:
        shutil.copytree(self._folder, self._before, copy_function=copy_if_there)
        files = kinds_of(self._folder).get(self._case.kind)
        if not files:
            raise NothingToDo
        file = self._rng.choice(files)
        os.link(file, self._harmed)
        older = kinds_of(self._scene.older).get(self._case.kind, [])
        harm = HARMS[self._case.harm](file, self._rng, [other for other in files if other != file], older)
        ranges = {self._before / path.relative_to(self._folder): r for path, r in harm.ranges.items()}
        self._exposed = exposed(self._before, ranges)
        if file.suffix == ".journal" and looks_unfinished(self._folder, harm.ranges):
            self._silent = self._exposed
        return harm

    async def _harm_under_the_server(self) -> tuple[Harm, str]:
        async with judge.running(self._folder) as server:
            await judge.look(server, self._receipts)
            await at_rest(server.bookie)
            harm = self._harm()
            known = {position for positions in self._receipts.positions.values() for position in positions}
            found = await judge.look(server, self._receipts)
            self._check(found, "under the running server")
            await judge.write(server, self._receipts)
            if self._case.kind == "journal, current":
                # What the server writes after the harm goes to the harmed file, or to a file that has lost its name.
                written = {position for positions in self._receipts.positions.values() for position in positions}
                self._exposed |= written - known
                self._silent |= written - known
            if self._case.kind == "entry log, current" and not harm.file.exists():
                # A later checkpoint goes on in the file that has lost its name.
                await at_rest(server.bookie)
                self._exposed |= exposed(self._before, {self._harmed: (0, END)})
            await self._image_of(server, self._image)
        shutil.rmtree(self._folder)
        self._image.rename(self._folder)
        return harm, await self._judge(harm, was_running=True)

    async def _image_of(self, server: Standalone, to: Path) -> None:
        """Copies the folder of the running server as a SIGKILL would leave it. A checkpoint during the copy would give
        an image that no kill leaves: files of before and after it together."""
        await at_rest(server.bookie)
        judge.image(self._folder, to)

    async def _judge(self, harm: Harm, *, was_running: bool = False) -> str:
        damaged = judge.content(self._folder)
        try:
            outcome = await self._start_and_go_on("")
        except StartError as error:
            refusal = str(error)
        else:
            if outcome == "unreadable" and not was_running:
                self._put_back(harm)
                await self._way_out("put back", {})
            return outcome
        if judge.content(self._folder) != damaged:
            changed = {name for name, data in judge.content(self._folder).items() if damaged.get(name) != data}
            self._complaints.append(f"a refused start changed {sorted(changed)}: {refusal}")
        names = {harm.file.name, harm.file.parent.name, *(path.name for path in harm.ranges)}
        if not any(name in refusal for name in names):
            self._complaints.append(f"the refusal names no file: {refusal}")
        if harm.file.name in NO_DATA:
            self._complaints.append(f"nothing depends on this file: {refusal}")
        if SKIP in refusal:
            judge.image(self._folder, self._image)
            await self._way_out("skipping", {"skipDamagedJournal": "true"})
            shutil.rmtree(self._folder)
            self._image.rename(self._folder)
        if not was_running:
            self._put_back(harm)
            await self._way_out("put back", {})
        return "refused"

    def _put_back(self, harm: Harm) -> None:
        for path in harm.ranges:
            shutil.copy2(self._before / path.relative_to(self._folder), path)
        self._exposed = self._silent = NONE

    async def _way_out(self, name: str, settings: dict[str, str]) -> None:
        try:
            await self._start_and_go_on(name, **settings)
        except StartError as error:
            self._complaints.append(f"{name}: does not start: {error}")

    async def _start_and_go_on(self, name: str, **settings: str) -> str:
        """Starts the server with the settings, reads, writes, kills it, starts it again without the settings and reads
        again. Raises StartError when the first start is refused."""
        receipts = self._receipts
        if name == "skipping":
            self._silent = self._silent | self._exposed
        async with judge.running(self._folder, **settings) as server:
            found = await judge.look(server, receipts)
            unreadable = self._check(found, name)
            more = judge.copy_of(receipts)
            refused = await judge.write(server, more)
            if refused and not unreadable:
                self._complaints.append(f"{name}: takes no writes: {refused}")
            await self._image_of(server, self._folder.with_name("again"))
        await self._again(self._folder.with_name("again"), name, more)
        if not name:
            self._receipts = more
        return "unreadable" if unreadable else "right"

    async def _again(self, folder: Path, name: str, receipts: Receipts) -> None:
        try:
            async with judge.running(folder) as server:
                self._check(await judge.look(server, receipts), f"{name}, started once more", receipts)
        except StartError as error:
            self._complaints.append(f"{name}: does not start once more: {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _check(self, found: judge.Found, when: str, receipts: Receipts | None = None) -> bool:
        """Adds a complaint for each message that is missing and should not be. Returns True when some entries cannot be
        read and the server said so."""
        missing = judge.lost(found, receipts or self._receipts)
        self._complaints += [f"{when}: {wrong}" for wrong in found.wrong]
        silent = [position for position, why in missing.items() if not why and position not in self._silent]
        if silent:
            self._complaints.append(f"{when}: {len(silent)} messages are gone without a word, e.g. {min(silent)}")
        loud = {position: why for position, why in missing.items() if why}
        beyond = [position for position in loud if position not in self._exposed]
        if beyond:
            self._complaints.append(
                f"{when}: {len(beyond)} messages outside of the damage cannot be read: {loud[beyond[0]]}"
            )
        if loud and not self._errors.lines:
            self._complaints.append(f"{when}: {len(loud)} messages cannot be read, and the log says nothing")
        return bool(loud)


@contextmanager
def captured(handler: judge.Errors) -> Iterator[None]:
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
