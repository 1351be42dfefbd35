"""Finds messages in a topic's log for people: from a place on, by key, property and text, decoded by schema.

A search reads the log itself. It moves no cursor, and no consumer notices it.
"""

import json
import time
from dataclasses import dataclass, field
from typing import Any

from magnetar.server.browsing.chunk_joiner import ChunkJoiner, JoinedChunks
from magnetar.server.browsing.entry_messages import StoredMessage, messages_of_entry, unpacked
from magnetar.server.browsing.message_filter_rules import COUNT_MAX, MessageFilter, Start
from magnetar.server.browsing.message_json import head_json, value_json
from magnetar.server.browsing.schema_decoders import SchemaDecoders
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.turns import Turns
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import Position

ANSWER_BYTES_MAX = 2 << 20
"""After this many bytes of values an answer ends, and says where the next search goes on."""

SCANNED_ENTRIES_MAX = 20_000
SCAN_SECONDS = 5.0
"""The entries and the time after which a search that finds little ends, and says where to go on."""

READ_ENTRIES = 100
READ_BYTES = 1 << 20
"""The bounds of one read of the log."""


@dataclass(slots=True)
class _Found:
    """What a search has found so far."""

    wanted: MessageFilter
    count_max: int
    decoders: SchemaDecoders
    rows: list[dict[str, Any]] = field(default_factory=list)
    bytes: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= self.count_max or self.bytes >= ANSWER_BYTES_MAX

    async def take(self, message: StoredMessage, **more: Any) -> None:
        """Adds a message if it is wanted; `more` goes to its head."""
        if not self.wanted.takes_head(message.key, message.properties):
            return
        reading = await self.decoders.reading(message.metadata)
        value = value_json(message, reading)
        if self.wanted.takes_content(value["content"]):
            self.rows.append({**head_json(message, reading), **more, "value": value})
            self.bytes += min(len(message.body), len(json.dumps(value["content"])) if message.body else 0)


async def browse(
    topic: Topic, registry: SchemaRegistry, start: Start, wanted: MessageFilter, count: int
) -> dict[str, Any]:
    """Returns `{"messages": […], "scannedEntries": n, "next": id or null, "resume": id}`: `next` is where a search goes
    on that ended before the end of the topic, `resume` where messages come that are published later. Raises PulsarError
    or SchemaStorageFault when the topic or its schemas cannot be read."""
    ledger = topic.ledger
    found = _Found(wanted, min(count, COUNT_MAX), SchemaDecoders(registry, topic.name.schema_id))
    chunks = ChunkJoiner()
    at, skipped = await _first(topic, start, count), start.batch_index
    ends_at, scanned, turns = time.monotonic() + SCAN_SECONDS, 0, Turns()
    following: str | None = None
    while following is None and not ledger.is_after_last(at):
        if found.is_full or scanned >= SCANNED_ENTRIES_MAX or time.monotonic() > ends_at:
            following = str(at)
            break
        with storage_faults_told():
            run = await ledger.read(at, READ_ENTRIES, READ_BYTES)
        if not run.entries:
            break
        for position, payload in _entries(run):
            if found.is_full:
                following = str(position)
                break
            if position != at:
                skipped = 0
            following = await _take_entry(found, chunks, position, payload, skipped, turns)
            skipped = 0
            scanned += 1
            at = ledger.next_position(position)
            if following is not None:
                break
    for each in chunks.rest():
        await _take_chunks(found, each)
    resume = at if following is None else following
    return {"messages": found.rows, "scannedEntries": scanned, "next": following, "resume": str(resume)}


async def _first(topic: Topic, start: Start, count: int) -> Position:
    """Returns the first entry that is read."""
    ledger = topic.ledger
    if start.time_ms is not None:
        with storage_faults_told():
            return await topic.first_published_at(start.time_ms)
    if start.position is not None:
        return max(start.position, ledger.first_position)
    if start.from_end and ledger.number_of_entries:
        return ledger.entry_at(max(0, ledger.number_of_entries - count))
    return ledger.first_position


def _entries(run: EntryRun) -> list[tuple[Position, bytes]]:
    offset = run.payload_offset
    return [
        (Position(run.ledger_id, entry_id), entry[offset:])
        for entry_id, entry in enumerate(run.entries, run.first_entry_id)
    ]


async def _take_entry(
    found: _Found, chunks: ChunkJoiner, position: Position, payload: bytes, skipped: int, turns: Turns
) -> str | None:
    """Adds the wanted messages of an entry. Returns the id of the first message of a batch for which there was no room,
    or None."""
    for message in await messages_of_entry(position, payload):
        if message.is_chunk and not message.fault:
            for each in chunks.add(message):
                await _take_chunks(found, each)
        elif message.batch_index >= skipped or message.batch_index < 0:
            if found.is_full:
                return f"{position}:{message.batch_index}"
            await found.take(message)
        await turns.breathe()
    return None


async def _take_chunks(found: _Found, chunks: JoinedChunks) -> None:
    """Adds a message that came in chunks."""
    last = chunks.last
    body, fault = chunks.joined(), ""
    if chunks.missing:
        fault = f"{chunks.missing} of {chunks.count} chunks were not found in the searched part of the topic"
    elif not last.metadata.encryption_keys:
        try:
            body = await unpacked(last.metadata, body)
        except MalformedFrame as error:
            fault = str(error)
    ids = [str(chunks.parts[index].position) for index in sorted(chunks.parts)]
    told = {"uuid": last.metadata.uuid, "count": chunks.count, "ids": ids}
    if chunks.missing:
        told["missing"] = chunks.missing
    await found.take(last._replace(body=body, fault=fault), chunk=told)
