"""The verbs of `magnetar leaks`. Each takes the tool, the parsed arguments and the site, and returns the exit code."""

import sys
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime

from magnetar.server.programs.bk.verb_running import Tool, ToolError
from magnetar.server.programs.leaks import leak_report
from magnetar.server.programs.leaks.leak_site import HOUR_MS, caution_of, wall_clock_ms
from magnetar.storage.leaks.backup import Backup
from magnetar.storage.leaks.finder import Findings, Look, Site, find
from magnetar.storage.leaks.orphan_rules import judge
from magnetar.storage.leaks.removal import Outcome, remove, restore
from magnetar.storage.leaks.znode_reader import read_leftovers
from magnetar.storage.ledger.ledger_errors import LedgerError
from pulsar_proto.records.ledger_record import ledger_id_of_path

CLEAN = 0
FOUND = 1


async def run_find(tool: Tool, arguments: Namespace, site: Site) -> int:
    findings = await find(site, caution_of(arguments))
    if arguments.from_bookies:
        findings = await _with_sizes(site, findings)
    if tool.out.as_json:
        tool.out.result(leak_report.as_fields(findings))
    else:
        for line in leak_report.as_lines(findings):
            tool.out.text(line)
    return CLEAN if findings.is_clean else FOUND


async def _with_sizes(site: Site, findings: Findings) -> Findings:
    """Returns the findings with the sizes of ledgers that are not closed, as their bookies know them. A ledger whose
    bookies do not answer keeps its unknown size."""
    judged = []
    for ledger, judgement in findings.judged:
        if ledger.entries is None and not ledger.fault:
            try:
                handle = await site.entries.open(ledger.ledger_id)
                ledger = replace(ledger, entries=handle.last_add_confirmed + 1, bytes=handle.length)
            except LedgerError as error:
                print(f"ledger {ledger.ledger_id}: {error}", file=sys.stderr)
        judged.append((ledger, judgement))
    return replace(findings, judged=judged)


async def run_explain(tool: Tool, arguments: Namespace, site: Site) -> int:
    """Explains a ledger, or the record at a path. The exit code is 1 for a finding, and for what is not there."""
    ledger_id = int(arguments.subject) if arguments.subject.isdecimal() else ledger_id_of_path(arguments.subject)
    look = Look(site, caution_of(arguments))
    await look.take()
    if ledger_id is None:
        return await _explain_path(tool, arguments.subject, site, look)
    references = look.picture.references.get(ledger_id, [])
    named = [{"path": each.path, "role": str(each.role), "keeps": each.keeps} for each in references]
    lines = [f"  {each.path} names it: {each.role}{'' if each.keeps else ', deleted'}" for each in references]
    ledger = await look.facts(ledger_id)
    if ledger is None:
        lost = any(each.is_dangling_if_gone for each in references)
        verdict = "dangling reference" if lost else "gone"
        text = "is gone" + (", and its data are lost: a record still needs it" if lost else "")
        tool.out.result(
            {"ledgerId": ledger_id, "verdict": verdict, "references": named},
            "\n".join([f"ledger {ledger_id} {text}", *lines]),
        )
        return FOUND
    judgement = judge(ledger, look.picture, look.caution)
    tool.out.result(
        {**leak_report.ledger_fields(ledger, judgement), "references": named},
        "\n".join([leak_report.ledger_line(ledger, judgement), *lines]),
    )
    return FOUND if judgement.is_finding else CLEAN


async def _explain_path(tool: Tool, path: str, site: Site, look: Look) -> int:
    if not path.startswith("/"):
        raise ToolError(f"{path!r} is neither a ledger's id nor the path of a record")
    path = path.rstrip("/")
    leftovers = await read_leftovers(site.stores, site.configuration, site.ledgers, look.listed, look.caution)
    for leftover in leftovers:
        if any(node.path == path for node in leftover.nodes) or leftover.path == path:
            tool.out.result(
                {"path": path, "verdict": "left over", "reason": leftover.reason, "removable": leftover.removable},
                f"{path} is left over: {leftover.reason}",
            )
            return FOUND
    references = [each for some in look.picture.references.values() for each in some if each.path == path]
    stores = [site.ledgers, *site.stores.values(), *site.configuration]
    is_there = [store for store in stores if await store.exists(path) is not None]
    verdict = "in place" if is_there else "gone"
    lines = [f"  it names ledger {each.ledger_id}: {each.role}" for each in references]
    tool.out.result(
        {"path": path, "verdict": verdict, "ledgers": [each.ledger_id for each in references]},
        "\n".join([f"{path} is {verdict}", *lines]),
    )
    return CLEAN if is_there else FOUND


async def run_backup(tool: Tool, arguments: Namespace, site: Site) -> int:
    findings = await find(site, caution_of(arguments))
    made_ms = wall_clock_ms()
    manifest = await Backup(arguments.folder).write(
        site, findings, made_ms, entries=arguments.entries, said=lambda text: print(text, file=sys.stderr)
    )
    ledgers = [item for item in manifest.items if item.ledger_id is not None]
    entries = sum(item.entries.count for item in ledgers if item.entries is not None)
    tool.out.result(
        {"folder": str(arguments.folder), "records": len(manifest.items), "ledgers": len(ledgers), "entries": entries},
        f"{arguments.folder}: {len(manifest.items)} records, {len(ledgers)} of them of ledgers, {entries} entries; "
        "all were read back",
    )
    return CLEAN


async def run_remove(tool: Tool, arguments: Namespace, site: Site) -> int:
    backup = Backup(arguments.folder)
    manifest = await backup.manifest()
    caution = caution_of(arguments)
    wait_ms = arguments.second_look_hours * HOUR_MS - caution.age_ms(manifest.made_ms)
    if wait_ms > 0:
        raise ToolError(
            f"the backup was made less than {arguments.second_look_hours} h ago; the second look is due in "
            f"{wait_ms // 60_000 + 1} minutes"
        )
    findings = await find(site, caution)
    ledgers = sum(item.ledger_id is not None for item in manifest.items)
    tool.confirm(
        f"Delete {ledgers} ledgers and {len(manifest.items) - ledgers} other records, as far as the second look still "
        "finds them?",
        force=arguments.force,
    )
    code = CLEAN
    async for outcome in remove(site, backup, manifest, findings):
        code = max(code, await _show(tool, backup, outcome))
    return code


async def run_restore(tool: Tool, arguments: Namespace, site: Site) -> int:
    backup = Backup(arguments.folder)
    manifest = await backup.manifest()
    tool.confirm(f"Put back {len(manifest.items)} records, as far as they are missing?", force=arguments.force)
    code = CLEAN
    async for outcome in restore(site, backup, manifest):
        code = max(code, await _show(tool, backup, outcome))
    return code


async def _show(tool: Tool, backup: Backup, outcome: Outcome) -> int:
    """Prints what became of one record, and writes it into the backup's log. Returns the exit code."""
    item = outcome.item
    name = f"ledger {item.ledger_id}" if item.ledger_id is not None else item.path
    tool.out.result(
        {"path": item.path, "ledgerId": item.ledger_id, "done": outcome.done, "text": outcome.text},
        f"{name}: {outcome.text}",
    )
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    await backup.note(f"{now} {item.path} (version {item.version}, {item.reason}): {outcome.text}")
    return CLEAN if outcome.done else FOUND
