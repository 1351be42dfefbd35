"""The command line: what it refuses, and that help shows examples and says what to do about damage."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.server.commands.main import build_parser, main


def test_standalone_takes_ports_and_overrides() -> None:
    arguments = build_parser().parse_args(
        ["standalone", "--broker-port", "0", "--web-port", "8081", "--set", "a=b=c", "--set", "d="]
    )
    assert (arguments.broker_port, arguments.web_port) == (0, 8081)
    assert dict(arguments.set) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["standalone", "--broker-port", "65536"], "'65536' is not a port"),
        (["standalone", "--web-port", "-1"], "--web-port"),
        (["standalone", "--data-dir", ""], "argument --data-dir: is empty"),
        (["standalone", "--set", "novalue"], "'novalue' is not KEY=VALUE"),
        (["stand"], "invalid choice"),
        (["standalone", "--datadir", "d"], "unrecognized arguments: --datadir d; see magnetar standalone --help"),
        (["standalone", "--data", "d"], "unrecognized arguments: --data d; see magnetar standalone --help"),
        (["bookie", "extra"], "unrecognized arguments: extra; see magnetar bookie --help"),
    ],
)
def test_wrong_usage_exits_2_and_names_what_was_wrong(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [["config"], ["--help"], ["standalone", "--help"], ["admin", "--help"], ["bk", "--help"]]
)
def test_a_reader_that_goes_away_ends_a_command_without_a_word(words: list[str]) -> None:
    """The reader is gone before the first byte, as that of `magnetar config | true` is."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "magnetar", *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writer)
    assert done.stderr == ""


def test_without_a_command_the_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    assert "standalone" in capsys.readouterr().out


def test_help_has_examples_and_explains_damage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["standalone", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "magnetar standalone --data-dir" in text
    assert "skipDamagedJournal=true" in text


def test_missing_configuration_file_is_one_sentence_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    code = main(["standalone", "--data-dir", str(data), "--conf", str(tmp_path / "none.conf")])
    assert code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "none.conf" in line
    assert not data.exists()


@pytest.mark.process
def test_a_command_line_imports_the_module_of_its_own_command_only() -> None:
    """All modules together would take 20 ms of every start."""
    program = (
        "import sys; from magnetar.server.commands.main import build_parser; build_parser(['bookie']); "
        "print(*sorted(each for each in sys.modules if each.startswith('magnetar.server.commands.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert [each.rpartition(".")[2] for each in done.stdout.split()] == ["arguments", "bookie", "main"]
