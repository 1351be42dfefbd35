"""Starts the server on a damaged folder, in this process, and says which messages are there and which are not."""

import asyncio
import gc
import logging
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName
from tests.damage.scenery import GONE, SETTINGS, SUBSCRIPTION, Position, Receipts, payload

STEP_SECONDS = 30.0
_HEAD = re.compile(rb"<(persistent:[^ ]+) (\d+)>")


@asynccontextmanager
async def running(folder: Path, **settings: str) -> AsyncIterator[Standalone]:
    """Runs a server on the folder. Raises StartError with the message that the user would see."""
    options = StandaloneOptions(folder, host="127.0.0.1", broker_port=0, web_port=0, overrides={**SETTINGS, **settings})
    server = Standalone(options)
    try:
        async with asyncio.timeout(STEP_SECONDS):
            await server.start()
        yield server
    finally:
        with suppress(Exception):
            await server.stop()
        # a start freezes its objects for the garbage collector, but in this process the server goes away again
        gc.unfreeze()


@dataclass(slots=True)
class Found:
    """What a running server shows of each topic."""

    messages: dict[str, dict[Position, int]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """The topics that do not load, each with the reason."""
    unreadable: dict[Position, str] = field(default_factory=dict)
    """The entries that a ledger's list names but that cannot be read, each with the error."""
    wrong: list[str] = field(default_factory=list)
    """Complaints about what must never happen, whatever was damaged."""


async def look(server: Standalone, receipts: Receipts) -> Found:
    found = Found()
    for topic in receipts.positions:
        try:
            async with asyncio.timeout(STEP_SECONDS):
                ledger = (await server.service.get_topic(TopicName.parse(topic), create=False)).ledger
                await _walk(server, topic, ledger, found)
        except (PulsarError, LedgerError, TimeoutError) as error:
            found.failures[topic] = repr(error)
            continue
        consumed = sorted(receipts.positions[topic])[: receipts.consumed.get(topic, 0)]
        cursor = ledger.cursors.get(SUBSCRIPTION)
        if cursor is None:
            found.wrong.append(f"the subscription of {topic} is gone")
        elif (upto := cursor.mark_delete) > (limit := consumed[-1] if consumed else (-1, -1)):
            behind = [position for position in receipts.positions[topic] if limit < position <= upto]
            if behind:
                found.wrong.append(f"{topic}: the subscription passed over {len(behind)} messages")
    with suppress(PulsarError):
        await server.service.get_topic(TopicName.parse(GONE), create=False)
        found.wrong.append("a deleted topic came back")
    return found


async def _walk(server: Standalone, topic: str, ledger: ManagedLedger, found: Found) -> None:
    messages = found.messages.setdefault(topic, {})
    last_number = -1
    for info in ledger.stats().ledgers:
        if info.ledger_id == ledger.stats().current_ledger_id and not ledger.stats().current_ledger_entries:
            continue
        handle = await server.bookkeeper.open_ledger_no_recovery(info.ledger_id)
        entry_id = 0
        while entry_id <= handle.last_add_confirmed:
            try:
                entries = await handle.read(entry_id, handle.last_add_confirmed)
            except LedgerError as error:
                found.unreadable[info.ledger_id, entry_id] = repr(error)
                entry_id += 1
                continue
            for stored in entries:
                number = _number(topic, stored[handle.payload_offset :], found)
                if number <= last_number:
                    found.wrong.append(f"{topic}: message {number} comes after {last_number}")
                last_number = number
                messages[info.ledger_id, entry_id] = number
                entry_id += 1


def _number(topic: str, stored: bytes, found: Found) -> int:
    head = _HEAD.search(stored)
    if head is None or head.group(1).decode() != topic:
        found.wrong.append(f"{topic} holds something else: {stored[:60]!r}")
        return 1 << 60
    number = int(head.group(2))
    if not stored.endswith(payload(topic, number)):
        found.wrong.append(f"{topic}: message {number} has other bytes")
    return number


async def write(server: Standalone, receipts: Receipts, count: int = 5) -> dict[str, str]:
    """Adds messages to each topic and keeps their receipts. Returns the topics that did not take them, each with the
    reason."""
    refused: dict[str, str] = {}
    for topic in receipts.positions:
        first = receipts.sent[topic]
        try:
            async with asyncio.timeout(STEP_SECONDS):
                ledger = (await server.service.get_topic(TopicName.parse(topic), create=False)).ledger
                done: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()
                receipts.sent[topic] += count
                ledger.add_entries([payload(topic, first + i) for i in range(count)], done.set_result)
                result = await done
        except (PulsarError, LedgerError, TimeoutError) as error:
            refused[topic] = repr(error)
            continue
        if result.error is not None:
            refused[topic] = repr(result.error)
        positions = [(ledger_id, first_id + i) for ledger_id, first_id, n in result.runs for i in range(n)]
        receipts.positions[topic].update({position: first + i for i, position in enumerate(positions)})
    return refused


def lost(found: Found, receipts: Receipts) -> dict[Position, str]:
    """Returns the receipts whose messages are missing, except for consumed ones, each with the reason that the server
    gave; the text is empty when the server gave none."""
    missing: dict[Position, str] = {}
    for topic, positions in receipts.positions.items():
        why = found.failures.get(topic, "")
        there = found.messages.get(topic, {})
        for position, number in positions.items():
            if number >= receipts.consumed.get(topic, 0) and there.get(position) != number:
                missing[position] = why or found.unreadable.get(position, "")
    return missing


def copy_of(receipts: Receipts) -> Receipts:
    positions = {topic: dict(each) for topic, each in receipts.positions.items()}
    return Receipts(positions, dict(receipts.sent), dict(receipts.consumed))


def content(folder: Path) -> Mapping[str, bytes]:
    """Reads every file of the folder, except for those that hold a process id."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("LOCK", "magnetar.lock")
    }


def image(folder: Path, to: Path) -> None:
    """Copies a folder that a server has open, as a SIGKILL would leave it."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)


class Errors(logging.Handler):
    """Collects what the server logs at ERROR."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
