"""The frame of the kill rounds, tried with the one job that needs no Spark. `make spark-rounds` runs the rounds
themselves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compat_tests.spark import kill_rounds
from compat_tests.spark.kill_rounds import Scene


class AuditRounds:
    while_killed: Sequence[str] = ("--interval", "1")
    made: list["AuditRounds"] = []  # noqa: RUF012, all that were made

    def __init__(self) -> None:
        self.written = 0
        self.judged: dict[str, Any] = {}
        AuditRounds.made.append(self)

    def prepare(self, scene: Scene) -> None:
        self.topic = scene.topic
        self.meanwhile(scene)

    def arguments(self) -> list[str]:
        return ["--namespaces", "public/default"]

    def meanwhile(self, scene: Scene) -> None:
        producer = scene.client.create_producer(self.topic)
        producer.send(b"x")
        producer.close()
        self.written += 1

    def judge(self, outcome: dict[str, Any]) -> list[str]:
        self.judged = outcome
        return ["it is a test"]


def test_a_round_kills_goes_on_and_judges_the_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kill_rounds, "MODULES", {"audit": "rounds_audit"})
    monkeypatch.setattr(kill_rounds, "rounds_of", lambda job: AuditRounds)
    monkeypatch.setattr(kill_rounds, "EARLY_KILLS", 1.0)
    monkeypatch.setattr(kill_rounds, "WORK_SECONDS", 2.0)
    AuditRounds.made.clear()
    options = ["--job", "audit", "--rounds", "1", "--seed", "3", "--folder", str(tmp_path), "--json"]
    assert kill_rounds.main(options) == 1
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    (report,), (rounds,) = said["rounds"], AuditRounds.made
    assert (said["seed"], said["complaints"], report["complaints"]) == (3, 1, ["it is a test"])
    assert report["starts"] == len(report["kills"]) + 1 == rounds.written
    assert report["kills"] != ["nobody"] * len(report["kills"])
    assert rounds.judged["job"] == "audit"
    assert "audit round 1: killed " in printed.err


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kill_rounds.main(["--help"])
    assert "--job lake_ingest --rounds 20" in capsys.readouterr().out
