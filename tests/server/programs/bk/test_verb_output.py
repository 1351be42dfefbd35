"""How far a long verb has come, in words."""

import pytest

from magnetar.server.programs.bk import verb_output
from magnetar.server.programs.bk.verb_output import ToolProgress


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [
        (1, None, "1 entry read, 0 s\n"),
        (2, None, "2 entries read, 0 s\n"),
        (1, 1, "1 of 1 entry (100 %) read, 0 s\n"),
        (1, 4, "1 of 4 entries (25 %) read, 0 s\n"),
    ],
)
def test_one_thing_is_told_in_the_singular(
    done: int, total: int | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb_output, "PROGRESS_SECONDS", 0.0)
    ToolProgress("read", "entry", "entries").update(done, total)
    assert capsys.readouterr().err == said
