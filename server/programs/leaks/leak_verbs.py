"""The verbs of `magnetar leaks`. Each takes the tool, the parsed arguments and the site, and returns the exit code."""

import sys
from argparse import Namespace
from collections.abc import AsyncIterator

from magnetar.server.leaks.explaining import explain
from magnetar.server.leaks.leak_report import as_fields, as_lines
from magnetar.server.leaks.leak_steps import backup_result, check_second_look, noted, outcome_result, with_sizes
from magnetar.server.programs.bk.verb_running import Tool
from magnetar.server.programs.leaks.leak_site import caution_of, wall_clock_ms
from magnetar.storage.leaks.backup import Backup
from magnetar.storage.leaks.finder import Site, find
from magnetar.storage.leaks.removal import Outcome, remove, restore
from pulsar_proto.counted import counted

CLEAN = 0
FOUND = 1


async def run_find(tool: Tool, arguments: Namespace, site: Site) -> int:
    findings = await find(site, caution_of(arguments))
    if arguments.from_bookies:
        findings = await with_sizes(site, findings, _complain)
    if tool.out.as_json:
        tool.out.result(as_fields(findings))
    else:
        for line in as_lines(findings):
            tool.out.text(line)
    return CLEAN if findings.is_clean else FOUND


async def run_explain(tool: Tool, arguments: Namespace, site: Site) -> int:
    """Explains a ledger, or the record at a path. The exit code is 1 for a finding, and for what is not there."""
    explanation = await explain(site, caution_of(arguments), arguments.subject)
    tool.out.result(explanation.fields, explanation.text)
    return FOUND if explanation.found else CLEAN


async def run_backup(tool: Tool, arguments: Namespace, site: Site) -> int:
    findings = await find(site, caution_of(arguments))
    made_ms = wall_clock_ms()
    manifest = await Backup(arguments.folder).write(site, findings, made_ms, entries=arguments.entries, said=_complain)
    tool.out.result(*backup_result(manifest, arguments.folder))
    return CLEAN


async def run_remove(tool: Tool, arguments: Namespace, site: Site) -> int:
    backup = Backup(arguments.folder)
    manifest = await backup.manifest()
    caution = caution_of(arguments)
    check_second_look(manifest, caution, arguments.second_look_hours)
    findings = await find(site, caution)
    ledgers = sum(item.ledger_id is not None for item in manifest.items)
    tool.confirm(
        f"Delete {counted(ledgers, 'ledger')} and {counted(len(manifest.items) - ledgers, 'other record')}, as far as "
        "the second look still finds them?",
        force=arguments.force,
    )
    return await _show(tool, noted(backup, remove(site, backup, manifest, findings)))


async def run_restore(tool: Tool, arguments: Namespace, site: Site) -> int:
    backup = Backup(arguments.folder)
    manifest = await backup.manifest()
    tool.confirm(f"Put back {counted(len(manifest.items), 'record')}, as far as missing?", force=arguments.force)
    return await _show(tool, noted(backup, restore(site, backup, manifest)))


async def _show(tool: Tool, outcomes: AsyncIterator[Outcome]) -> int:
    """Prints what became of each record. Returns the exit code."""
    code = CLEAN
    async for outcome in outcomes:
        tool.out.result(*outcome_result(outcome))
        code = code if outcome.done else FOUND
    return code


def _complain(text: str) -> None:
    print(text, file=sys.stderr)
