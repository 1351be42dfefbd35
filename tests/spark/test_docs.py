"""The worked example of docs/SPARK.md runs as it stands."""

import re
from pathlib import Path

import pytest

from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "SPARK.md"


def test_the_example_prints_twelve_months(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    source = source.replace("from magnetar.spark import", "from spark import")
    exec(source.replace("pulsar://127.0.0.1:6650", scene.server.broker_url), {})
    printed = capsys.readouterr().out
    assert "|-- temperature: double" in printed
    assert len(re.findall(r"^\| +\d+\|", printed, re.MULTILINE)) == 12
