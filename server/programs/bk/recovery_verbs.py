"""Verbs of `magnetar bk` about lost copies, and about auto-recovery."""

import asyncio
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from magnetar.server.programs.bk.cluster_verbs import delete_cookie
from magnetar.server.programs.bk.verb_output import ToolProgress
from magnetar.server.programs.bk.verb_running import Tool, ToolError
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.repair.auditor_election import current_auditor
from magnetar.storage.repair.operator_repair import (
    BookieIsUp,
    RecoveryOutcome,
    decommission,
    ledgers_naming,
    recover_bookies,
)
from pulsar_proto.counted import counted
from pulsar_proto.records import underreplication_record as records

AT_ONCE = 64


async def recover(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    bookies = frozenset(arguments.bookies)
    ledgers = await _ledgers_to_recover(tool, cluster, bookies, arguments.ledger)
    if arguments.query or arguments.dry_run:
        _show_ledgers(tool, ledgers, bookies, arguments)
        return 0
    if not ledgers:
        tool.out.result({"ledgers": 0}, f"no ledger names {', '.join(sorted(bookies))}")
        return await _end_recovery(tool, arguments, RecoveryOutcome())
    config = tool.recovery_config
    if arguments.replication_rate is not None:
        config = replace(config, replication_rate_by_bytes=arguments.replication_rate)
    question = f"Copy what {', '.join(sorted(bookies))} held of {counted(len(ledgers), 'ledger')} to other bookies?"
    tool.confirm(question, force=arguments.force)
    progress = ToolProgress("recovered")
    outcome = await recover_bookies(
        cluster, config, bookies, ledgers, skip_open=arguments.skip_open_ledgers, progress=progress.update
    )
    progress.end()
    for ledger_id, reason in sorted(outcome.failed.items()):
        tool.out.result({"ledgerId": ledger_id, "error": reason}, f"ledger {ledger_id} failed: {reason}")
    for ledger_id in sorted(outcome.skipped_open):
        tool.out.result({"ledgerId": ledger_id, "skipped": "open"}, f"ledger {ledger_id} skipped: it is open")
    copied = outcome.copied
    done = outcome.ledgers - len(outcome.failed) - len(outcome.skipped_open)
    tool.out.result(
        {
            "ledgers": outcome.ledgers,
            "recovered": done,
            "failed": len(outcome.failed),
            "skipped": len(outcome.skipped_open),
            "fragments": copied.fragments,
            "entries": copied.entries,
            "bytes": copied.bytes,
        },
        f"{done} of {counted(outcome.ledgers, 'ledger')} recovered: {counted(copied.fragments, 'fragment')}, "
        f"{counted(copied.entries, 'entry', 'entries')}, {counted(copied.bytes, 'byte')} copied",
    )
    return await _end_recovery(tool, arguments, outcome)


async def _ledgers_to_recover(
    tool: Tool, cluster: BookKeeperCluster, bookies: frozenset[str], ledger_id: int | None
) -> dict[int, dict[str, Any]]:
    """Returns the fields that `_show_ledgers` prints, for each ledger whose record names one of the bookies."""
    if ledger_id is not None:
        metadata = (await cluster.driver.read(ledger_id)).metadata
        found = {ledger_id: metadata} if any(not bookies.isdisjoint(m) for _, m in metadata.ensembles) else {}
    else:
        progress = ToolProgress("looked at")
        found = await ledgers_naming(cluster, bookies, at_once=AT_ONCE, progress=progress.update)
        progress.end()
    return {
        ledger_id: {
            "ledgerId": ledger_id,
            "state": metadata.state.name,
            "fragments": {
                str(first): sorted(bookies.intersection(members))
                for first, members in metadata.ensembles
                if not bookies.isdisjoint(members)
            },
        }
        for ledger_id, metadata in sorted(found.items())
    }


def _show_ledgers(
    tool: Tool, ledgers: dict[int, dict[str, Any]], bookies: frozenset[str], arguments: Namespace
) -> None:
    for fields in ledgers.values():
        parts = "; ".join(f"from entry {first}: {', '.join(named)}" for first, named in fields["fragments"].items())
        is_skipped = arguments.skip_open_ledgers and fields["state"] != "CLOSED"
        note = ", would be skipped" if is_skipped else ""
        tool.out.result(fields, f"ledger {fields['ledgerId']} {fields['state']}{note}: {parts}")
    if arguments.dry_run:
        tool.out.text(f"{counted(len(ledgers), 'ledger')} would be recovered")
    else:
        tool.out.text(f"{counted(len(ledgers), 'ledger names', 'ledgers name')} {', '.join(sorted(bookies))}")


async def _end_recovery(tool: Tool, arguments: Namespace, outcome: RecoveryOutcome) -> int:
    if arguments.delete_cookie:
        if outcome.failed or outcome.skipped_open or arguments.ledger is not None:
            tool.out.text("the cookies stay: ledgers still name these bookies")
        else:
            for bookie in arguments.bookies:
                await delete_cookie(tool, bookie)
                tool.out.text(f"the cookie of {bookie} is deleted")
    return 1 if outcome.failed and not arguments.skip_unrecoverable_ledgers else 0


async def decommissionbookie(tool: Tool, arguments: Namespace) -> int:
    cluster, book = await tool.cluster(), await tool.book()
    await book.prepare()
    scanning, progress = ToolProgress("looked at"), ToolProgress("replicated")
    try:
        async with asyncio.timeout(arguments.timeout):
            ledgers = await decommission(
                cluster,
                book,
                arguments.bookie,
                at_once=AT_ONCE,
                scanning=scanning.update,
                progress=progress.update,
            )
    except BookieIsUp as error:
        raise ToolError(str(error)) from None
    except TimeoutError:
        auditor = await current_auditor(cluster.store)
        hint = f"auditor is {auditor}" if auditor else "no auditor is running: is auto-recovery started anywhere?"
        raise ToolError(f"not all ledgers were replicated within {arguments.timeout} s; {hint}") from None
    finally:
        scanning.end()
        progress.end()
    deleted = True
    try:
        await delete_cookie(tool, arguments.bookie)
    except ToolError:
        deleted = False
    tool.out.result(
        {"bookieId": arguments.bookie, "ledgers": ledgers, "cookieDeleted": deleted},
        f"bookie {arguments.bookie} is retired: {counted(ledgers, 'ledger is', 'ledgers are')} on other bookies now"
        + (", its cookie is deleted" if deleted else "; it had no cookie"),
    )
    return 0


async def listunderreplicated(tool: Tool, arguments: Namespace) -> int:
    book = await tool.book()
    count = 0
    async for ledger_id in book.marked():
        mark = await book.get(ledger_id)
        if mark is None:
            continue  # The ledger was healed meanwhile.
        if arguments.missing is not None and arguments.missing not in mark.replicas:
            continue
        if arguments.excluding is not None and arguments.excluding in mark.replicas:
            continue
        count += 1
        if arguments.count:
            continue
        worker = await book.lock_holder(ledger_id) if arguments.print_worker else None
        fields: dict[str, Any] = {"ledgerId": ledger_id, "ctime": mark.ctime_ms, "missingReplicas": list(mark.replicas)}
        if arguments.print_worker:
            fields["replicationWorkerId"] = worker
        lines = [f"{ledger_id}" + (f"  since {_time(mark.ctime_ms)}" if mark.ctime_ms is not None else "")]
        if arguments.print_missing:
            lines += [f"  missing on {bookie}" for bookie in mark.replicas]
        if worker is not None:
            lines.append(f"  being healed by {worker}")
        tool.out.result(fields, "\n".join(lines))
    if arguments.count:
        tool.out.result({"count": count}, str(count))
    elif not count:
        tool.out.text("no ledger lacks copies")
    return 0


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


async def triggeraudit(tool: Tool, _: Namespace) -> int:
    book = await tool.book()
    await book.prepare()
    await book.trigger_audit()
    auditor = await current_auditor(await tool.store())
    tool.out.result(
        {"triggered": True, "auditor": auditor},
        f"asked {auditor} to audit"
        if auditor
        else "asked for an audit; nobody is the auditor now, the next one does it",
    )
    return 0


async def whoisauditor(tool: Tool, _: Namespace) -> int:
    """Prints the auditor's id. The exit code is 1 when there is no auditor."""
    await tool.cluster()
    auditor = await current_auditor(await tool.store())
    tool.out.result({"auditor": auditor}, auditor or "nobody is the auditor: auto-recovery is not running")
    return 0 if auditor else 1


async def lostbookierecoverydelay(tool: Tool, arguments: Namespace) -> int:
    book = await tool.book()
    if arguments.set_delay is not None:
        await book.prepare()
        await book.set_recovery_delay(arguments.set_delay)
    delay = await book.recovery_delay()
    text = "not set yet: the first auditor does" if delay is None else f"{delay} s"
    tool.out.result({"lostBookieRecoveryDelay": delay}, f"lostBookieRecoveryDelay is {text}")
    return 0


async def autorecovery(tool: Tool, arguments: Namespace) -> int:
    book = await tool.book()
    changed = False
    if arguments.enable:
        changed = await book.enable()
    elif arguments.disable:
        await book.prepare()
        changed = await book.disable()
    enabled = await book.is_enabled()
    state = "enabled" if enabled else "disabled"
    asked = arguments.enable or arguments.disable
    text = f"auto-recovery is {state}" + (" already" if asked and not changed else "")
    tool.out.result({"enabled": enabled, "changed": changed, "record": records.DISABLE}, text)
    return 0
