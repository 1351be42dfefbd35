"""Verbs of `magnetar bk` about the cluster as a whole and about its bookies."""

import asyncio
import uuid
from argparse import Namespace
from typing import Any

import aiofiles
from google.protobuf.message import DecodeError

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.store import CreateOp
from magnetar.server.programs.bk.verb_running import Tool, ToolError
from magnetar.storage.bookie.cookie import parse_cookie
from magnetar.storage.ledger.bookie_registry import Bookies
from magnetar.storage.ledger.wire_link import Address
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.text import check_text

MIB = 1 << 20


async def initnewcluster(tool: Tool, _: Namespace) -> int:
    store = await tool.store()
    instance_id = str(uuid.uuid4())
    records = (
        CreateOp(paths.LEDGERS_ROOT),
        CreateOp(paths.AVAILABLE_BOOKIES),
        CreateOp(paths.READ_ONLY_BOOKIES),
        CreateOp(paths.INSTANCE_ID, instance_id.encode()),
        CreateOp(paths.LAYOUT, LAYOUT_VALUE),
    )
    try:
        await store.multi(records)
    except NodeExistsError:
        raise ToolError(f"there is a cluster at {tool.connect} already: {paths.LEDGERS_ROOT} exists") from None
    tool.out.result(
        {"instanceId": instance_id, "zookeeper": tool.connect},
        f"made a new cluster at {tool.connect}, instance {instance_id}",
    )
    return 0


async def whatisinstanceid(tool: Tool, _: Namespace) -> int:
    record = await (await tool.store()).get(paths.INSTANCE_ID)
    if record is None:
        raise ToolError(f"there is no cluster at {tool.connect}: no {paths.INSTANCE_ID}")
    instance_id = record.value.decode("utf-8", "replace").strip()
    tool.out.result({"instanceId": instance_id}, instance_id)
    return 0


async def listbookies(tool: Tool, arguments: Namespace) -> int:
    cluster = await tool.cluster()
    found = cluster.registry.bookies
    rows: list[tuple[str, str, Address | None]] = []
    none_chosen = not (arguments.readwrite or arguments.readonly or arguments.all)
    if arguments.readwrite or arguments.all or none_chosen:
        rows += [(bookie, "rw", address) for bookie, address in found.writable.items()]
    if arguments.readonly or arguments.all or none_chosen:
        rows += [(bookie, "ro", address) for bookie, address in found.read_only.items() if bookie not in found.writable]
    if arguments.all:
        rows += [(bookie, "down", None) for bookie in await _cookies(tool) if bookie not in found.all]
    for bookie, state, address in sorted(rows):
        where = "" if address is None else f"{address[0]}:{address[1]}"
        tool.out.result(
            {"bookieId": bookie, "state": state, "address": where or None}, f"{bookie:<30} {state:<5}{where}"
        )
    if not rows:
        tool.out.text("no such bookies")
    return 0


async def _cookies(tool: Tool) -> list[str]:
    try:
        return await (await tool.store()).children(paths.COOKIES)
    except NoNodeError:
        return []


async def bookieinfo(tool: Tool, _: Namespace) -> int:
    """Prints the disk space of all bookies, which are asked at the same time. A bookie that does not answer is named,
    and the exit code is 1 then."""
    cluster = await tool.cluster()
    bookies = sorted(cluster.registry.bookies.all)

    async def ask(bookie: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(cluster.config.read_entry_timeout_sec):
                info = await cluster.wire_channel(bookie).bookie_info()
        except (LookupError, OSError) as error:
            return {"bookieId": bookie, "error": str(error) or type(error).__name__}
        return {"bookieId": bookie, "free": info.free_disk_bytes, "total": info.total_disk_bytes}

    answers = await asyncio.gather(*map(ask, bookies))
    for answer in answers:
        if "error" in answer:
            tool.out.result(answer, f"{answer['bookieId']:<30} {answer['error']}")
        else:
            tool.out.result(answer, _space(answer["bookieId"], answer["free"], answer["total"]))
    known = [answer for answer in answers if "error" not in answer]
    tool.out.text(_space("all", sum(one["free"] for one in known), sum(one["total"] for one in known)))
    return 0 if len(known) == len(answers) else 1


def _space(name: str, free: int, total: int) -> str:
    return f"{name:<30} free {free // MIB:>10,} MiB of {total // MIB:>10,} MiB ({100 * free / max(total, 1):.0f} %)"


async def endpointinfo(tool: Tool, arguments: Namespace) -> int:
    await tool.cluster()
    store = await tool.store()
    for read_only in (False, True):
        record = await store.get(paths.bookie_path(arguments.bookie, read_only=read_only))
        if record is not None:
            break
    else:
        raise ToolError(f"bookie {arguments.bookie} is not registered")
    try:
        info = pb.BookieServiceInfoFormat.FromString(record.value)
        check_text(info)
    except DecodeError:
        raise ToolError(f"the registration of bookie {arguments.bookie} does not decode") from None
    tool.out.text(f"bookie {arguments.bookie}, {'read-only' if read_only else 'writable'}")
    for one in info.endpoints:
        fields = {"id": one.id, "protocol": one.protocol, "host": one.host, "port": one.port}
        more = " ".join((*one.auth, *one.extensions))
        tool.out.result(
            {**fields, "auth": list(one.auth), "extensions": list(one.extensions)},
            f"  {one.id:<12} {one.protocol:<12} {one.host}:{one.port} {more}".rstrip(),
        )
    return 0


async def cookie_get(tool: Tool, arguments: Namespace) -> int:
    await tool.cluster()
    record = await (await tool.store()).get(paths.cookie_path(arguments.bookie))
    if record is None:
        raise ToolError(f"bookie {arguments.bookie} has no cookie")
    text = record.value.decode("utf-8", "replace")
    tool.out.result(
        {"bookieId": arguments.bookie, "cookie": text, "version": record.stat.version}, text.removesuffix("\n")
    )
    return 0


async def cookie_create(tool: Tool, arguments: Namespace) -> int:
    await tool.cluster()
    async with aiofiles.open(arguments.cookie_file, "rb") as file:
        value = await file.read()
    try:
        cookie = parse_cookie(value)
    except ValueError as error:
        raise ToolError(f"{arguments.cookie_file} is no cookie: {error}") from None
    if cookie.bookie_id != arguments.bookie:
        raise ToolError(f"{arguments.cookie_file} is the cookie of bookie {cookie.bookie_id}")
    try:
        await (await tool.store()).create(paths.cookie_path(arguments.bookie), value, make_parents=True)
    except NodeExistsError:
        raise ToolError(f"bookie {arguments.bookie} has a cookie already") from None
    tool.out.result({"bookieId": arguments.bookie, "created": True}, f"the cookie of {arguments.bookie} is stored")
    return 0


async def cookie_delete(tool: Tool, arguments: Namespace) -> int:
    found: Bookies = (await tool.cluster()).registry.bookies
    if arguments.bookie in found.all and not arguments.force:
        raise ToolError(f"bookie {arguments.bookie} is running; -f deletes its cookie nevertheless")
    tool.confirm(f"Delete the cookie of bookie {arguments.bookie}?", force=arguments.force)
    await delete_cookie(tool, arguments.bookie)
    tool.out.result({"bookieId": arguments.bookie, "deleted": True}, f"the cookie of {arguments.bookie} is deleted")
    return 0


async def delete_cookie(tool: Tool, bookie: str) -> None:
    """Deletes the bookie's cookie. Raises ToolError when the bookie has no cookie."""
    try:
        await (await tool.store()).delete(paths.cookie_path(bookie))
    except NoNodeError:
        raise ToolError(f"bookie {bookie} has no cookie") from None
