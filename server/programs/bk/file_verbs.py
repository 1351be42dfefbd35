"""Verbs of `magnetar bk` that read a bookie's own files. These verbs change nothing, and can be used while the bookie
runs."""

import base64
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from magnetar.server.programs.bk.verb_output import ToolProgress, readable
from magnetar.server.programs.bk.verb_running import Tool, ToolError
from magnetar.storage.bookie.apache_journal import (
    ApacheRecord,
    apache_journal_path,
    apache_journals,
    read_apache_journal,
)
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.file_check import CheckSummary, check_files
from magnetar.storage.bookie.file_inspection import (
    FileFault,
    SeenBatch,
    entry_log_files,
    journal_files,
    read_entry_log,
    read_journals,
)
from magnetar.storage.bookie.journal_format import EXPLICIT_LAC, FENCE, LEDGER_KEY
from magnetar.storage.bookie.journal_replay import journal_path
from pulsar_proto.counted import counted
from pulsar_proto.records.entry_digest import entry_ids, entry_lac

CONTROLS = {LEDGER_KEY: "ledger key", FENCE: "fence", EXPLICIT_LAC: "explicit LAC"}
ENTRY_HEADER_BYTES = 32
OTHER_ENTRY_BYTES = 16


def _folders(given: Sequence[Path], configured: Sequence[str], what: str) -> tuple[str, ...]:
    """Returns the folders that the command line names, or else the folders of the configuration. Raises ToolError for a
    folder that does not exist."""
    folders = tuple(os.path.abspath(folder) for folder in (given or configured))
    for folder in folders:
        if not os.path.isdir(folder):
            raise ToolError(f"there is no {what} {folder}; name it with --conf bk_server.conf or --{what}")
    return folders


def _journals(tool: Tool, arguments: Namespace) -> tuple[str, ...]:
    return _folders(arguments.journals, tool.process.journal_directories, "journal-dir")


def _ledgers(tool: Tool, arguments: Namespace) -> tuple[str, ...]:
    return _folders(arguments.ledgers, tool.process.ledger_directories, "ledger-dir")


def _show_fault(tool: Tool, fault: FileFault, **more: Any) -> None:
    kind = "unfinished" if fault.unfinished else "damage"
    where = f"{fault.file} offset {fault.offset}" + (f" to {fault.end}" if fault.end > fault.offset else "")
    tool.out.result(
        {kind: fault.what, "file": fault.file, "offset": fault.offset, "end": fault.end, **more},
        f"{kind.upper() if kind == 'damage' else kind}: {where}: {fault.what}",
    )


async def journal(tool: Tool, arguments: Namespace) -> int:
    folders = _journals(tool, arguments)
    damaged = False
    for folder, files in zip(folders, journal_files(folders), strict=True):
        if arguments.file is not None:
            files = [file for file in files if file == journal_path(folder, arguments.file)]
        for found in read_journals(files):
            if isinstance(found, FileFault):
                damaged |= not found.unfinished
                _show_fault(tool, found)
            else:
                _show_batch(tool, found, arguments)
        damaged |= _apache_journals(tool, arguments, folder)
    return 1 if damaged else 0


def _apache_journals(tool: Tool, arguments: Namespace, folder: str) -> bool:
    """Shows the journals that Apache's bookie has in the folder. Returns whether one is damaged."""
    files = apache_journals(folder)
    if arguments.file is not None:
        files = [file for file in files if file == apache_journal_path(folder, arguments.file)]
    damaged = False
    for file in files:
        for found in read_apache_journal(file):
            if isinstance(found, FileFault):
                damaged |= not found.unfinished
                _show_fault(tool, found)
            elif arguments.ledger in (None, found.ledger_id):
                _show_record(tool, found, with_message=arguments.msg)
    return damaged


def _show_record(tool: Tool, record: ApacheRecord, *, with_message: bool) -> None:
    fields = {"file": record.file, "offset": record.offset}
    where = f"{os.path.basename(record.file)} offset {record.offset}"
    if record.control:
        control = {"ledgerId": record.ledger_id, "kind": record.control}
        line = f"{where}: ledger {record.ledger_id}: {record.control}"
        tool.out.result({**fields, "controls": [control], "entries": []}, line)
    else:
        entry = _entry(record.data, with_message)
        tool.out.result({**fields, "controls": [], "entries": [entry]}, f"{where}: {_entry_line(entry)}")


def _show_batch(tool: Tool, batch: SeenBatch, arguments: Namespace) -> None:
    controls = [
        {"ledgerId": one.ledger_id, "kind": CONTROLS.get(one.kind, str(one.kind))}
        for one in batch.controls
        if arguments.ledger in (None, one.ledger_id)
    ]
    entries = [_entry(entry, arguments.msg) for entry in batch.entries]
    entries = [entry for entry in entries if arguments.ledger in (None, entry["ledgerId"])]
    if arguments.ledger is not None and not controls and not entries:
        return
    fields = {"file": batch.file, "offset": batch.offset, "sequence": batch.header.sequence}
    lines = [f"{os.path.basename(batch.file)} offset {batch.offset}: batch {batch.header.sequence}"]
    lines += [f"  ledger {one['ledgerId']}: {one['kind']}" for one in controls]
    lines += ["  " + _entry_line(entry) for entry in entries]
    tool.out.result({**fields, "controls": controls, "entries": entries}, "\n".join(lines))


def _entry(entry: bytes, with_message: bool) -> dict[str, Any]:
    """Returns the fields of a stored entry. Digest and payload are shown together, because only the ledger's record in
    the metadata says where the digest ends."""
    ledger_id, entry_id = entry_ids(entry) if len(entry) >= OTHER_ENTRY_BYTES else (None, None)
    fields: dict[str, Any] = {"ledgerId": ledger_id, "entryId": entry_id, "bytes": len(entry)}
    if len(entry) >= ENTRY_HEADER_BYTES:
        fields["lastAddConfirmed"] = entry_lac(entry)
    if with_message:
        fields["digestAndPayload"] = base64.b64encode(entry[ENTRY_HEADER_BYTES:]).decode()
    return fields


def _entry_line(fields: dict[str, Any]) -> str:
    line = f"ledger {fields['ledgerId']} entry {fields['entryId']}: {counted(fields['bytes'], 'byte')}"
    if "digestAndPayload" in fields:
        line += f"\n    {readable(base64.b64decode(fields['digestAndPayload']))}"
    return line


async def entrylog(tool: Tool, arguments: Namespace) -> int:
    logs = entry_log_files(_ledgers(tool, arguments))
    if arguments.file is not None:
        if arguments.file not in logs:
            raise ToolError(f"there is no entry log {arguments.file:08x}.log")
        logs = {arguments.file: logs[arguments.file]}
    damaged = False
    for path in logs.values():
        for found in read_entry_log(path):
            if isinstance(found, FileFault):
                damaged |= not found.unfinished
                _show_fault(tool, found)
                continue
            header, ids = found.block.header, found.block.ids
            if arguments.ledger not in (None, header.ledger_id):
                continue
            if arguments.entry is not None and arguments.entry not in ids:
                continue
            fields: dict[str, Any] = {
                "file": path,
                "offset": found.offset,
                "ledgerId": header.ledger_id,
                "firstEntryId": ids[0],
                "lastEntryId": ids[-1],
                "entries": len(ids),
                "generation": header.generation,
                "bytes": header.total,
            }
            line = (
                f"{os.path.basename(path)} offset {found.offset}: ledger {header.ledger_id} entries {ids[0]} to "
                f"{ids[-1]} ({len(ids)}), {header.total} bytes, generation {header.generation}"
            )
            if arguments.msg:
                entries = [_entry(entry, True) for entry in found.block.entries(0, len(ids))]
                fields["content"] = [one for one in entries if arguments.entry in (None, one["entryId"])]
                line += "".join(f"\n  {_entry_line(one)}" for one in fields["content"])
            tool.out.result(fields, line)
    return 1 if damaged else 0


async def index(tool: Tool, arguments: Namespace) -> int:
    folders = _ledgers(tool, arguments)
    path = os.path.join(folders[0], "index")
    if not os.path.isdir(path):
        raise ToolError(f"there is no index {path}; the first ledger directory has it")
    opened = EntryIndex(path, read_only=True)
    try:
        for state in opened.ledger_states():
            if arguments.ledger in (None, state.ledger_id):
                fields = {
                    "ledgerId": state.ledger_id,
                    "fenced": state.fenced,
                    "kept": state.kept,
                    "hasExplicitLac": bool(state.explicit_lac),
                }
                tool.out.result(fields, f"ledger {state.ledger_id}{', fenced' * state.fenced}{', kept' * state.kept}")
        for ledger_id, run in opened.runs():
            if arguments.ledger in (None, ledger_id):
                tool.out.result(
                    {
                        "ledgerId": ledger_id,
                        "firstEntryId": run.first,
                        "lastEntryId": run.last,
                        "entryLogId": run.log_id,
                        "offset": run.offset,
                        "bytes": run.length,
                        "dense": run.dense,
                    },
                    f"ledger {ledger_id} entries {run.first} to {run.last}{'' if run.dense else ' (with gaps)'}: "
                    f"{run.log_id:08x}.log offset {run.offset}, {run.length} bytes",
                )
    finally:
        opened.close()
    return 0


async def check(tool: Tool, arguments: Namespace) -> int:
    journals, ledgers = _journals(tool, arguments), _ledgers(tool, arguments)
    progress = ToolProgress("checked", "file")
    seen = CheckSummary()
    damaged = 0
    for fault, lost in check_files(journals, ledgers, seen, progress.update):
        damaged += 1
        progress.end()
        entries = [{"ledgerId": one.ledger_id, "firstEntryId": one.first, "lastEntryId": one.last} for one in lost]
        _show_fault(tool, fault, lost=entries)
        for one in lost:
            tool.out.text(f"  lost here: ledger {one.ledger_id} entries {one.first} to {one.last}")
    progress.end()
    for fault in seen.unfinished:
        _show_fault(tool, fault)
    tool.out.result(
        {
            "damaged": damaged,
            "journals": seen.journals,
            "batches": seen.batches,
            "entryLogs": seen.entry_logs,
            "blocks": seen.blocks,
            "ledgers": seen.ledgers,
            "runs": seen.runs,
        },
        f"{counted(seen.batches, 'batch', 'batches')} in {counted(seen.journals, 'journal')}, "
        f"{counted(seen.blocks, 'block')} in {counted(seen.entry_logs, 'entry log')}, "
        f"{counted(seen.runs, 'run')} of {counted(seen.ledgers, 'ledger')}: {damaged or 'nothing'} damaged",
    )
    return 1 if damaged else 0
