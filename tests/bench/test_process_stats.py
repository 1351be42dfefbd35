"""The bench's sums over a process tree whose descendants come and go while they are read."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.process_stats import cpu_seconds, memory_mb, tree


@pytest.fixture
def without_stat(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Files of /proc that are gone when they are read, as those of a process that has ended since it was listed."""
    gone: set[str] = set()
    read_text = Path.read_text

    def read(path: Path) -> str:
        if str(path) in gone:
            raise FileNotFoundError(path)
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", read)
    return gone


@pytest.fixture
def child() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid


@pytest.mark.process
def test_a_tree_holds_the_process_and_its_children(child: int) -> None:
    assert {os.getpid(), child} <= tree(os.getpid()).keys()
    assert os.getppid() not in tree(os.getpid())


@pytest.mark.process
def test_a_descendant_that_ends_while_it_is_read_is_left_out(child: int, without_stat: set[str]) -> None:
    without_stat.add(f"/proc/{child}/smaps_rollup")
    assert memory_mb(os.getpid()) > 0
    without_stat.add(f"/proc/{child}/stat")
    assert child not in tree(os.getpid())
    assert cpu_seconds(os.getpid()) > 0


def test_a_process_that_is_gone_itself_is_an_error(without_stat: set[str]) -> None:
    without_stat |= {f"/proc/{os.getpid()}/stat", f"/proc/{os.getpid()}/smaps_rollup"}
    for measure in (cpu_seconds, memory_mb):
        with pytest.raises(FileNotFoundError):
            measure(os.getpid())
        with pytest.raises(FileNotFoundError):
            measure(os.getpid(), with_descendants=False)
