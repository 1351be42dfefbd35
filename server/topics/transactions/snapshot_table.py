"""The snapshots of a namespace's topics, kept in a compacted system topic of that namespace, where only the newest
message of a key counts. A table holds the newest messages of one system topic.

Sources: SystemTopicTxnBufferSnapshotService, TransactionBufferSnapshotBaseSystemTopicClient.
"""

import asyncio
from collections.abc import AsyncIterator
from enum import Enum
from typing import Protocol

from magnetar.server.schema.schema_types import Schema, SchemaType
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.records.transaction_snapshot import INDEXES_SCHEMA, SEGMENT_SCHEMA, SNAPSHOT_SCHEMA

SCHEMA_PROPERTIES = {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"}
"""The properties with which Java's broker registers the schemas."""


class SnapshotKind(Enum):
    """The kinds of records. The value is the local name of the topic that holds them."""

    WHOLE = "__transaction_buffer_snapshot"
    SEGMENTS = "__transaction_buffer_snapshot_segments"
    INDEXES = "__transaction_buffer_snapshot_indexes"

    @property
    def schema(self) -> Schema:
        return Schema(SchemaType.AVRO, _SCHEMAS[self], SCHEMA_PROPERTIES)


_SCHEMAS = {
    SnapshotKind.WHOLE: SNAPSHOT_SCHEMA,
    SnapshotKind.SEGMENTS: SEGMENT_SCHEMA,
    SnapshotKind.INDEXES: INDEXES_SCHEMA,
}


class SnapshotLog(Protocol):
    """One system topic with snapshots, at whichever broker it is."""

    @property
    def is_closed(self) -> bool:
        """Whether the topic has to be opened anew, and read from its beginning."""

    def close_soon(self) -> None:
        """Closes the log in the background. Idempotent."""

    def news(self) -> AsyncIterator[tuple[str, bytes | None]]:
        """Yields key and content of the messages that this method has not yielded before, up to the present end of the
        topic. The content is None for a message that deletes its key. Raises PulsarError."""

    async def append(self, key: str, value: bytes | None) -> Position:
        """Appends a message, and returns its position once it is stored. Raises PulsarError."""


class SnapshotLogs(Protocol):
    """Finds the system topics of all namespaces."""

    async def open(self, name: TopicName, schema: Schema, *, create: bool) -> SnapshotLog:
        """Opens the topic, whose messages have this schema. Raises TopicNotFound when the topic is missing and `create`
        is not set, and other PulsarErrors."""


class SnapshotTable:
    """The newest message of each key of one system topic."""

    def __init__(self, name: TopicName, kind: SnapshotKind, logs: SnapshotLogs) -> None:
        self._name = name
        self._kind = kind
        self._logs = logs
        self._log: SnapshotLog | None = None
        self._values: dict[str, bytes] = {}
        self._reading = asyncio.Lock()

    async def get(self, key: str) -> bytes | None:
        """Returns the newest content of the key, or None. Raises PulsarError when the topic cannot be read."""
        async with self._reading:
            try:
                log = await self._opened(create=False)
            except TopicNotFound:
                return None
            try:
                async for each, value in log.news():
                    self._apply(each, value)
            except BaseException:
                self._drop(log)
                raise
        return self._values.get(key)

    async def put(self, key: str, value: bytes | None) -> Position:
        """Stores the newest content of the key; None deletes the key. Returns the position of the message. Creates the
        topic if it is missing. Raises PulsarError."""
        async with self._reading:
            log = await self._opened(create=True)
        try:
            position = await log.append(key, value)
        except BaseException:
            self._drop(log)
            raise
        self._apply(key, value)
        return position

    def close(self) -> None:
        if self._log is not None:
            self._drop(self._log)

    def _drop(self, log: SnapshotLog) -> None:
        """Closes the log after a failure, because the topic may have moved or been deleted: the next call opens it
        again."""
        log.close_soon()
        if self._log is log:
            self._log = None

    async def _opened(self, *, create: bool) -> SnapshotLog:
        if self._log is None or self._log.is_closed:
            self._values.clear()
            self._log = await self._logs.open(self._name, self._kind.schema, create=create)
        return self._log

    def _apply(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value


class SnapshotTables:
    """The tables of all namespaces. One object serves the whole process."""

    def __init__(self, logs: SnapshotLogs) -> None:
        self.logs = logs
        """A broker of a cluster replaces this before topics are loaded."""
        self._tables: dict[str, SnapshotTable] = {}

    def of(self, namespace: str, kind: SnapshotKind) -> SnapshotTable:
        name = TopicName.parse(f"persistent://{namespace}/{kind.value}")
        table = self._tables.get(name.full)
        if table is None:
            table = self._tables[name.full] = SnapshotTable(name, kind, self.logs)
        return table

    def topic_gone(self, name: TopicName) -> None:
        """Called when a topic was deleted. If it held snapshots, all of them are gone."""
        table = self._tables.pop(name.base.full, None)
        if table is not None:
            table.close()
