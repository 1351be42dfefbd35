"""The options of produce, consume, read, bench and check, without a server."""

import subprocess
import sys

import pytest

from magnetar.server.commands import bench_command, consume, produce
from magnetar.server.commands.main import build_parser, main
from magnetar.server.tools.messages.consuming import TYPES
from magnetar.server.tools.messages.position_rules import Moment
from magnetar.server.tools.messages.producing import COMPRESSIONS
from magnetar.server.tools.messages.value_schema_rules import WRITTEN_TYPES

SLOW_MODULES = ("pulsar", "_pulsar", "fastavro", "aiohttp", "ssl", "magnetar.server.tools.messages.position_rules")


@pytest.mark.parametrize("words", [("produce",), ("consume",), ("read",), ("bench",), ("check",), ("check", "latency")])
def test_help_has_examples(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"  magnetar {' '.join(words)} " in text
    assert "exit codes" in text.lower()


@pytest.mark.process
def test_the_parser_imports_nothing_that_is_slow() -> None:
    program = (
        "import sys; from magnetar.server.commands.main import build_parser; build_parser(); "
        f"print([name for name in {SLOW_MODULES!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_options_offer_what_the_programs_take() -> None:
    assert produce.COMPRESSIONS == bench_command.COMPRESSIONS == tuple(COMPRESSIONS)
    assert consume.TYPES == bench_command.TYPES == tuple(TYPES)
    assert produce.SCHEMA_TYPES == WRITTEN_TYPES


def test_a_time_ago_may_begin_with_a_dash() -> None:
    arguments = build_parser().parse_args(["read", "t", "--from", "-1.5h", "--to", "-10m", "-n", "5"])
    assert isinstance(arguments.start, Moment)
    assert 0 <= arguments.stop.ms - arguments.start.ms - 80 * 60 * 1000 < 60_000
    assert arguments.count == 5
