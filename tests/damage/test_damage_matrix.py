"""A sample of the damage matrix with one case of each kind of file; `make damage` runs all cases."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from compat_tests.harness import Server, ServerFailedError
from magnetar.storage.bookie.journal_format import BATCH_HEADER_SIZE, FILE_HEADER_SIZE
from magnetar.storage.bookie.journal_replay import journal_path, list_journals
from magnetar.storage.bookie.last_mark import LastMarkFile
from tests.damage.cases import Trial, all_cases
from tests.damage.kinds import kinds_of
from tests.damage.scenery import SETTINGS, Scene, make_scenes
from tests.storage.bookie.helpers import flip_byte

pytestmark = [pytest.mark.process, pytest.mark.slow]

SEED = 20


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scene]:
    return make_scenes(tmp_path_factory.mktemp("damage"))


def test_a_sample_of_the_matrix_loses_nothing_silently(scenes: dict[str, Scene], tmp_path: Path) -> None:
    rng = Random(SEED)
    sample = {case.kind: case for case in sorted(all_cases(scenes, 1, SEED), key=lambda _: rng.random())}
    outcomes = set()
    complaints = []
    for number, case in enumerate(sample.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        verdict = asyncio.run(Trial(case, scenes, folder).run())
        outcomes.add(verdict.outcome)
        complaints += [f"{case.seed}, {verdict.harm}: {complaint}" for complaint in verdict.complaints]
    assert not complaints, "\n".join(complaints)
    assert outcomes >= {"right", "refused"}


def behind_the_mark(scene: Scene) -> tuple[Path, int]:
    """Returns a journal and an offset in the first batch that replay reads. More than one journal follows, so that
    damage there is not taken for a torn end. When the mark is at the end of a journal, only an empty batch follows it
    there, and the first batch to read is in the next journal."""
    mark = LastMarkFile(str(scene.folder / "ledgers" / "lastMark")).load()
    assert mark is not None
    (position,) = mark.positions
    folder = str(scene.folder / "journal")
    path = Path(journal_path(folder, position.journal_id))
    if path.stat().st_size > position.offset + BATCH_HEADER_SIZE:
        return path, position.offset + BATCH_HEADER_SIZE
    following = min(each for each in list_journals(folder) if each > position.journal_id)
    return Path(journal_path(folder, following)), FILE_HEADER_SIZE + BATCH_HEADER_SIZE


@pytest.mark.parametrize("kind", ["journal", "index, MANIFEST", "metadata.sqlite"])
def test_a_real_server_refuses_with_an_exit_code_and_a_sentence(
    scenes: dict[str, Scene], tmp_path: Path, kind: str
) -> None:
    scene = scenes["killed"]
    (tmp_path / "data").symlink_to(scene.folder, target_is_directory=True)
    file, offset = behind_the_mark(scene) if kind == "journal" else (kinds_of(scene.folder)[kind][-1], 100)
    flip_byte(file, offset)
    try:
        with pytest.raises(ServerFailedError, match=rf"exit code 1\b(.|\n)*{tmp_path / 'data'}"):
            Server(tmp_path, settings=SETTINGS).start()
    finally:
        flip_byte(file, offset)
