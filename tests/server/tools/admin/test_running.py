"""The whole of `magnetar admin`: exit codes, where texts go, help, contexts, and what is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.server.commands.main import build_parser, main
from magnetar.server.tools.admin.groups import GROUPS, commands_of
from magnetar.server.tools.admin.reference_rules import reference

NOT_NEEDED = (
    "argparse",
    "aiohttp",
    "asyncio",
    "dataclasses",
    "google",
    "importlib.metadata",
    "typing_extensions",
)
"""Modules that take long to import and that a call over plain HTTP does not need."""
TABLES_OF_TENANTS = {"tenants_table"}


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PULSAR_CLIENT_CONF", "MAGNETAR_ADMIN_URL", "MAGNETAR_CONTEXT", "MAGNETAR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "Missing required subcommand"),
        (["topics"], "Missing required subcommand"),
        (["topic"], "Missing required subcommand"),
        (["nope"], "Unmatched argument at index 0: 'nope'"),
        (["tenant", "lst"], "Did you mean: list?"),
        (["topics", "stats"], "Missing required parameter: '<topic>'"),
        (["topics", "skip", "t"], "Missing required options"),
        (["tenants", "list", "extra"], "Unmatched argument at index 2: 'extra'"),
        (["--admin-url", "h:1", "tenants", "list"], "'h:1' is not a web address"),
        (["--context", "lost", "tenants", "list"], "there is no context 'lost'"),
        (["functions", "localrun", "--name", "f"], "runs a function inside Java's tool"),
        (["functions", "create", "--name", "f"], "Either a Java jar or a Python file or a Go executable binary"),
        (["functions", "create", "--name", "f", "--jar", "/no/jar", "--classname", "C"], "jar file does not exist"),
        (["functions", "create", "--name", "f", "--jar", "/no/jar"], "No Function Classname specified"),
        (["functions", "create", "--jar", "a", "--function-type", "b"], "Cannot specify both jar and function-type"),
        (["functions", "update", "--parallelism", "2"], "Function Name not provided"),
        (["functions", "create", "--function-config-file", "/no/file"], "No such file"),
        (["functions", "create", "--name", "f", "--user-config", "[]"], "--user-config: '[]' is not a JSON object"),
        (["sinks", "create", "--name", "f"], "Sink archive not specified"),
        (["sources", "create", "--archive", "/no/nar", "--name", "f"], "Source Archive /no/nar does not exist"),
        (["schemas", "extract", "t", "-j", "a", "-t", "avro", "-c", "C"], "needs Java"),
        (["topics", "delete", "t", "-r", "--from-file"], "Could not apply regex when read topics from file."),
    ],
)
def test_a_failure_exits_1_with_nothing_on_stdout(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["admin", *words]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert complaint in said.err


def test_an_error_of_the_connection_is_written_as_the_java_tool_writes_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["admin", "--admin-url", "http://127.0.0.1:1", "tenants", "list"]) == 1
    reason = "cannot connect to http://127.0.0.1:1: Connection refused"
    assert capsys.readouterr().err == f"{reason}\n\nReason: {reason}\n"


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for group in GROUPS:
        assert main(["admin", group.name, "--help"]) == 0
        for command in commands_of(group):
            assert command.examples, (group.name, command.name)
            assert command.summary.endswith("."), (group.name, command.name)
            assert main(["admin", group.name, command.name, "--help"]) == 0
            text = capsys.readouterr().out
            assert f"  magnetar admin {group.name} {command.name}" in text
            assert all(option.help for option in command.options)
    assert main(["admin", "--help"]) == 0
    assert "topicPolicies" in capsys.readouterr().out
    assert "admin" in build_parser().format_help()


def test_the_reference_is_what_the_tables_say() -> None:
    page = Path(__file__).parents[4] / "docs" / "admin" / "REFERENCE.md"
    assert page.read_text() == reference(), "make it anew: python -m tests.server.tools.admin.write_reference"


def test_contexts_are_set_used_shown_renamed_and_deleted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def admin(*words: str) -> str:
        assert main(["admin", *words]) == 0, words
        return capsys.readouterr().out

    admin("context", "set", "west", "--admin-url", "http://west:8080", "--auth-plugin", "token")
    admin("ctx", "set", "east", "--admin-url", "http://east:8080", "--auth-params", "token:secret")
    assert admin("context", "current") == "west\n"
    admin("context", "use", "east")
    assert "secret" not in admin("context", "get")
    admin("context", "rename", "east", "us-east")
    assert admin("context", "list") == "west\nus-east\n"
    assert admin("context", "current") == "us-east\n"
    assert main(["admin", "context", "rename", "west", "us-east"]) == 1
    assert "there is a context 'us-east' already" in capsys.readouterr().err
    assert main(["admin", "tenants", "list"]) == 1
    assert "http://east:8080" in capsys.readouterr().err
    admin("context", "delete", "us-east")
    assert main(["admin", "context", "current"]) == 1
    assert "no context is the current one" in capsys.readouterr().err


def test_completion_knows_groups_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    def words(*typed: str) -> list[str]:
        assert main(["completion", "words", "--", "admin", *typed]) == 0
        return capsys.readouterr().out.split()

    assert words("topi") == ["topicPolicies", "topics"]
    assert words("tenants", "") == ["create", "delete", "get", "list", "update"]
    assert words("tenants", "create", "--a") == ["--admin-roles", "--allowed-clusters"]
    assert words("--admin-url", "http://127.0.0.1:1", "topics", "list", "x", "-td", "n") == ["non_persistent"]
    assert words("--admin-url", "http://127.0.0.1:1", "topics", "stats", "") == []
    assert words("nope", "x") == []


@pytest.mark.process
def test_a_command_imports_only_what_it_needs(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['magnetar', 'admin', '--admin-url', 'http://127.0.0.1:1', 'tenants', 'list']\n"
        "from magnetar.launcher import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = done.stdout.split()
    assert "magnetar.server.tools.connection.http_client" in loaded
    assert [name for name in loaded if name in NOT_NEEDED] == []
    tables = {name.rpartition(".")[2] for name in loaded if name.endswith("_table")} - {"command_table"}
    assert tables == TABLES_OF_TENANTS
