"""What is told about configuration keys is complete, and is what the servers do."""

import ast
import json
import re
from pathlib import Path

import pytest

from magnetar.server.commands.main import main
from magnetar.server.config.dynamic_keys import DYNAMIC_KEYS
from magnetar.server.config.known_keys import KNOWN
from magnetar.server.tools.configuration.key_page import page
from magnetar.server.tools.configuration.key_reference import KeyEntry, entries, without_effect
from magnetar.server.tools.configuration.program_settings import programs
from tests.house.tree import parsed
from tests.server.web.web_scene import running

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "CONFIGURATION.md"


def entry(program: str, name: str) -> KeyEntry:
    return next(each for each in entries() if (each.program, each.name) == (program, name))


def test_the_page_is_what_the_command_makes() -> None:
    assert PAGE.read_text() == page(), "run: magnetar config --page > docs/CONFIGURATION.md"


def test_every_key_says_what_it_does_in_the_words_of_a_configuration_file() -> None:
    assert [each.name for each in entries() if not re.match(r"[A-Z0-9].*\.$", each.effect)] == []
    assert [each.name for each in entries() if re.search(r"`[a-z]+_[a-z_]+`|\.py\b", each.effect)] == []


def test_every_key_of_a_program_is_told_or_has_no_field_there() -> None:
    told = {(each.program, each.name) for each in entries()}
    untold = [(each.name, name) for each in programs() for name in each.keys if (each.name, name) not in told]
    assert {program for program, _ in untold} <= {"standalone"}
    for _, name in untold:
        assert any((program.name, name) in told for program in programs()), name


def test_every_settings_class_that_a_program_fills_is_in_the_reference() -> None:
    filled = {
        call.args[0].id
        for path in (ROOT / "server").rglob("*.py")
        if "tools" not in path.parts
        for call in ast.walk(parsed(path))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "fill"
        and isinstance(call.args[0], ast.Name)
    }
    assert filled >= {"TopicSettings", "LoadSettings"}
    listed = {type(settings).__name__ for program in programs() for settings in program.settings}
    assert filled - listed - {"entries", "ledger_id"} == set()


@pytest.mark.parametrize(
    ("program", "name", "default"),
    [
        ("standalone", "managedLedgerDefaultWriteQuorum", "1"),
        ("broker", "managedLedgerDefaultWriteQuorum", "2"),
        ("broker", "clusterName", "(required)"),
        ("standalone", "webServicePortTls", "off"),
        ("standalone", "gcWaitTime", "60000"),
        ("bookie", "gcWaitTime", "900000"),
        ("broker", "addEntryTimeoutSec", "30"),
        ("bookie", "addEntryTimeoutSec", "5"),
        ("broker", "bookkeeperClientSpeculativeReadTimeoutInMillis", "0"),
        ("standalone", "subscriptionTypesEnabled", "Exclusive,Shared,Failover,Key_Shared"),
        ("standalone", "allowAutoTopicCreation", "true"),
        ("standalone", "transactionCoordinatorEnabled", "true"),
        ("broker", "transactionCoordinatorEnabled", "false"),
    ],
)
def test_a_default_is_the_program_s_own(program: str, name: str, default: str) -> None:
    assert entry(program, name).default == default


def test_a_default_can_be_written_into_the_file() -> None:
    for program in programs():
        for each in entries():
            if each.program == program.name and each.default not in ("", "off", "(required)"):
                program.keys[each.name].parse(each.default)


async def test_the_keys_of_a_running_server_that_change_are_those_that_are_called_dynamic(tmp_path: Path) -> None:
    parts = {"authenticationEnabled": "true", "anonymousUserRole": "anybody"}
    async with running(tmp_path, **parts) as web:
        held = set(await web.json("/admin/v2/brokers/configuration/runtime"))
        told = {each.name for each in entries() if each.program == "standalone" and each.is_dynamic}
        assert told == held & DYNAMIC_KEYS.keys()


def test_every_key_that_apache_knows_is_told_about() -> None:
    honoured, whole = {each.name for each in entries()}, page()
    for name in KNOWN:
        assert (without_effect(name) is None) == (name in honoured), name
        assert f"`{name}`" in whole, name


def test_the_command_tells_about_one_key_or_all_of_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "managedLedgerCacheSizeMB"]) == 0
    assert capsys.readouterr().out.startswith("managedLedgerCacheSizeMB=64   (standalone, broker; a whole number of MB")
    assert main(["config", "managedLedgerDefaultWriteQuorum"]) == 0
    of_each = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.partition(";")[0] for line in of_each] == [
        "managedLedgerDefaultWriteQuorum=1   (standalone",
        "managedLedgerDefaultWriteQuorum=2   (broker",
    ]
    assert main(["config", "--program", "bookie", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {each["program"] for each in listed} == {"bookie"}
    of_port = next(each for each in listed if each["name"] == "bookiePort")
    assert (of_port["default"], of_port["is_dynamic"]) == ("3181", False)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["maxTenant"], "there is no key maxTenant (is it maxTenants?)"),
        (["maxTenants"], "maxTenants has no effect: the number of tenants is not limited"),
        (["journalSyncData"], "journalSyncData has no effect: files on disk are laid out differently"),
        (["bookiePort", "--program", "broker"], "bookiePort is a key of bookie, autorecovery only"),
        (["tlsEnabledWithKeyStore"], "turning it on stops the start"),
    ],
)
def test_a_key_that_is_not_there_is_told_why(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", *words]) == 1
    assert sentence in capsys.readouterr().err
