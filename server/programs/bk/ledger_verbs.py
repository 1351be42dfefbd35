"""Verbs of `magnetar bk` about ledgers and their entries."""

import asyncio
import base64
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any

import aiofiles

from magnetar.metadata.errors import NodeExistsError
from magnetar.server.programs.bk.verb_output import ToolProgress, readable
from magnetar.server.programs.bk.verb_running import Tool, ToolError
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchEntry, NoSuchLedger
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.ledger.read_handle import ReadHandle
from magnetar.storage.ledger.replica_reader import ReplicaReader
from magnetar.storage.repair.ledger_checker import OLDEST_DIGEST
from magnetar.storage.repair.ledger_index import bookies_of, visit_ledgers
from pulsar_proto.counted import counted
from pulsar_proto.records.entry_digest import EntryCodec, entry_ids, entry_lac, entry_length, master_key
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_path

AT_ONCE = 64
APPENDS_MAX = 1000
"""How many entries of a test may be unacknowledged at once."""


def metadata_fields(metadata: LedgerMetadata) -> dict[str, Any]:
    """Returns a ledger's record as a JSON object. The password is left out, because it opens the ledger."""
    return {
        "ledgerId": metadata.ledger_id,
        "state": metadata.state.name,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorumSize": metadata.write_quorum,
        "ackQuorumSize": metadata.ack_quorum,
        "lastEntryId": metadata.last_entry_id,
        "length": metadata.length,
        "digestType": None if metadata.digest_type is None else metadata.digest_type.name,
        "hasPassword": bool(metadata.password),
        "ensembles": {str(first): list(members) for first, members in metadata.ensembles},
        "customMetadata": {key: value.decode("utf-8", "replace") for key, value in metadata.custom_metadata.items()},
        "formatVersion": metadata.format_version,
        "ctime": metadata.ctime,
    }


def metadata_text(metadata: LedgerMetadata) -> str:
    fields = metadata_fields(metadata)
    ensembles = fields.pop("ensembles")
    custom = fields.pop("customMetadata")
    lines = [f"  {name:<16} {value}" for name, value in fields.items() if name != "ledgerId" and value is not None]
    lines += [f"  from entry {first:<6} {', '.join(members)}" for first, members in ensembles.items()]
    lines += [f"  {key} = {value}" for key, value in custom.items()]
    return "\n".join((f"ledger {metadata.ledger_id}", *lines))


async def listledgers(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    progress = ToolProgress("listed")
    if not arguments.meta and arguments.bookie is None:
        for ledger_id in sorted(await list_ledgers(cluster.store)):
            tool.out.result({"ledgerId": ledger_id}, str(ledger_id))
        return 0
    found: dict[int, LedgerMetadata] = {}

    async def visit(metadata: LedgerMetadata) -> None:
        if arguments.bookie is None or arguments.bookie in bookies_of(metadata):
            found[metadata.ledger_id] = metadata

    await visit_ledgers(cluster.store, cluster.driver, visit, at_once=AT_ONCE, progress=progress.update)
    progress.end()
    for ledger_id, metadata in sorted(found.items()):
        if arguments.meta:
            tool.out.result(metadata_fields(metadata), metadata_text(metadata))
        else:
            tool.out.result({"ledgerId": ledger_id}, str(ledger_id))
    return 0


async def ledgermetadata(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    path = ledger_path(arguments.ledger)
    if arguments.restore is not None:
        return await _restore(tool, arguments, cluster, path)
    record = await cluster.store.get(path)
    if record is None:
        raise NoSuchLedger(f"there is no ledger {arguments.ledger}")
    if arguments.dump is not None:
        async with aiofiles.open(arguments.dump, "wb") as file:
            await file.write(record.value)
        tool.out.result(
            {"ledgerId": arguments.ledger, "file": str(arguments.dump), "bytes": len(record.value)},
            f"the record of ledger {arguments.ledger} is in {arguments.dump}, {counted(len(record.value), 'byte')}",
        )
        return 0
    metadata = LedgerMetadata.parse(arguments.ledger, record.value)
    tool.out.result({**metadata_fields(metadata), "version": record.stat.version}, metadata_text(metadata))
    return 0


async def _restore(tool: Tool, arguments: Namespace, cluster: BookKeeperCluster, path: str) -> int:
    async with aiofiles.open(arguments.restore, "rb") as file:
        value = await file.read()
    LedgerMetadata.parse(arguments.ledger, value)
    try:
        await cluster.store.create(path, value, make_parents=True)
    except NodeExistsError:
        if not arguments.update:
            raise ToolError(f"ledger {arguments.ledger} has a record; --update replaces it") from None
        await cluster.store.put(path, value)
    tool.out.result(
        {"ledgerId": arguments.ledger, "restored": True}, f"the record of ledger {arguments.ledger} is restored"
    )
    return 0


async def readledger(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    metadata = (await cluster.driver.read(arguments.ledger)).metadata
    entries = (
        _from_bookie(cluster, metadata, arguments)
        if arguments.bookie is not None
        else _from_ledger(cluster, metadata, arguments)
    )
    payload_at = _codec(metadata).payload_offset
    count = 0
    async for entry in entries:
        count += 1
        ledger_id, entry_id = entry_ids(entry)
        payload = entry[payload_at:]
        fields: dict[str, Any] = {
            "ledgerId": ledger_id,
            "entryId": entry_id,
            "lastAddConfirmed": entry_lac(entry),
            "length": entry_length(entry),
            "payloadBytes": len(payload),
        }
        line = f"ledger {ledger_id} entry {entry_id}: LAC {entry_lac(entry)}, {counted(len(payload), 'byte')}"
        if arguments.msg:
            fields["payload"] = base64.b64encode(payload).decode()
            line += f"\n  {readable(payload)}"
        tool.out.result(fields, line)
    if not count:
        tool.out.text(f"ledger {arguments.ledger} has no such entries")
    return 0


def _codec(metadata: LedgerMetadata) -> EntryCodec:
    return EntryCodec(metadata.ledger_id, metadata.digest_type or OLDEST_DIGEST, metadata.password or b"")


async def _from_ledger(
    cluster: BookKeeperCluster, metadata: LedgerMetadata, arguments: Namespace
) -> AsyncIterator[bytes]:
    """Yields the entries up to the last confirmed one, each from any replica that has the entry, as every reader gets
    them."""
    reader = await cluster.bookkeeper.open_ledger(
        metadata.ledger_id,
        password=metadata.password or b"",
        recover=arguments.recover,
        digest_type=metadata.digest_type or OLDEST_DIGEST,
    )
    last = reader.last_add_confirmed if arguments.last is None else min(arguments.last, reader.last_add_confirmed)
    position = arguments.first
    while position <= last:
        run = await reader.read(position, last)
        for entry in run:
            yield entry
        position += len(run)


async def _from_bookie(
    cluster: BookKeeperCluster, metadata: LedgerMetadata, arguments: Namespace
) -> AsyncIterator[bytes]:
    """Yields the entries that one bookie has, including entries beyond the last confirmed one. Entries that the bookie
    lacks are left out."""
    reader = ReplicaReader(
        metadata.ledger_id,
        master_key(metadata.password or b""),
        _codec(metadata),
        cluster.channels,
        cluster.config,
    )
    last = arguments.last
    if last is None:
        try:
            last = (await reader.last_entry_of(arguments.bookie)).entry_id
        except NoSuchEntry:
            return
    for entry_id in range(arguments.first, last + 1):
        try:
            yield await reader.entry_of(arguments.bookie, entry_id)
        except NoSuchEntry:
            continue


async def deleteledger(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    await cluster.driver.read(arguments.ledger)
    tool.confirm(f"Delete ledger {arguments.ledger} and all its entries?", force=arguments.force)
    await cluster.bookkeeper.delete_ledger(arguments.ledger)
    tool.out.result({"ledgerId": arguments.ledger, "deleted": True}, f"ledger {arguments.ledger} is deleted")
    return 0


async def simpletest(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    handle = await cluster.bookkeeper.create_ledger(
        ensemble_size=arguments.ensemble, write_quorum=arguments.write_quorum, ack_quorum=arguments.ack_quorum
    )
    count = arguments.num_entries
    payload = bytes(number % 256 for number in range(arguments.size))
    began = time.monotonic()
    try:
        await _write(handle, payload, count)
        await handle.close()
        written = time.monotonic()
        reader = await cluster.bookkeeper.open_ledger(handle.ledger_id)
        await _read_back(reader, payload, count)
        read = time.monotonic()
    finally:
        await cluster.bookkeeper.delete_ledger(handle.ledger_id)
    write_seconds, read_seconds = written - began, read - written
    tool.out.result(
        {
            "ledgerId": handle.ledger_id,
            "entries": count,
            "bytes": count * arguments.size,
            "writeSeconds": round(write_seconds, 4),
            "readSeconds": round(read_seconds, 4),
            "ensemble": list(handle.metadata.ensembles[-1][1]),
        },
        f"{counted(count, 'entry', 'entries')} of {counted(arguments.size, 'byte')} written to ledger "
        f"{handle.ledger_id} in {write_seconds:.2f} s "
        f"({count / write_seconds:,.0f}/s), read back in {read_seconds:.2f} s, ledger deleted",
    )
    return 0


async def _write(handle: WriteHandle, payload: bytes, count: int) -> None:
    progress = ToolProgress("written", "entry", "entries")
    written = 0
    while written < count:
        group = min(APPENDS_MAX, count - written)
        done: asyncio.Future[LedgerError | None] = asyncio.get_running_loop().create_future()
        handle.append([payload] * group, lambda append, done=done: done.set_result(append.error))  # type: ignore[misc]
        if (error := await done) is not None:
            raise error
        written += group
        progress.update(written, count)
    progress.end()


async def _read_back(reader: ReadHandle, payload: bytes, count: int) -> None:
    """Reads the entries of a test back. Raises ToolError when they differ from the entries that were written."""
    progress = ToolProgress("read", "entry", "entries")
    if reader.last_add_confirmed != count - 1:
        were = counted(count, "entry was", "entries were")
        raise ToolError(f"the ledger ends at entry {reader.last_add_confirmed}, {were} written")
    position = 0
    while position < count:
        for entry in await reader.read(position, count - 1):
            if entry[reader.payload_offset :] != payload:
                raise ToolError(f"entry {position} came back with another content")
            position += 1
        progress.update(position, count)
    progress.end()
