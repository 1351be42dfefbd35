"""Gives `policies/change_events.py` access to the `__change_events` topics, which hold topic policies."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.topic import Topic
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.errors import MalformedRecord, MetadataFault
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName

READ_AT_ONCE = 100
READ_BYTES_AT_ONCE = 5 << 20


class GetTopic(Protocol):
    """The type of `BrokerService.get_topic`."""

    def __call__(self, name: TopicName, *, create: bool) -> Awaitable[Topic]: ...


class TopicEventLog:
    """The messages of one `__change_events` topic. Implements the `EventLog` of `policies/change_events.py`."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    async def messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yields (position in the log, payload): first the messages that compaction has kept, then the messages that
        were written after the compaction. Raises PulsarError when the storage cannot be read."""
        topic, ledger = self._topic, self._topic.ledger
        at = ledger.first_position
        compacted = None
        with storage_faults_told():
            if topic.compaction is not None:
                compacted = await topic.compaction.compacted()
            if compacted is not None and topic.compaction is not None and topic.compaction.horizon is not None:
                at = ledger.next_position(topic.compaction.horizon)
        if compacted is not None:
            index = 0
            while True:
                try:
                    kept = await compacted.read(index, READ_AT_ONCE, READ_BYTES_AT_ONCE)
                except (LedgerError, MalformedRecord) as error:
                    raise MetadataFault(f"{topic}: what compaction kept cannot be read: {error}") from error
                if not kept:
                    break
                for each in kept:
                    yield str(each.position), each.payload
                index += len(kept)
        while not ledger.is_after_last(at):
            with storage_faults_told():
                run = await ledger.read(at, READ_AT_ONCE, READ_BYTES_AT_ONCE)
            if not run.entries:
                break
            for number, entry in enumerate(run.entries, run.first_entry_id):
                yield f"{run.ledger_id}:{number}", entry[run.payload_offset :]
            at = ledger.next_position(Position(run.ledger_id, run.first_entry_id + len(run.entries) - 1))

    async def append(self, payload: bytes) -> Position:
        """Appends a message, and returns its position once the message is stored. Raises PulsarError when the message
        cannot be stored."""
        stored: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()

        def done(result: AddResult) -> None:
            if not stored.done():
                stored.set_result(result)

        self._topic.ledger.add_entries([payload], done)
        result = await stored
        if result.error is not None:
            with storage_faults_told():
                raise result.error
        ledger_id, entry_id, _ = result.runs[0]
        return Position(ledger_id, entry_id)


class PolicyEventTopics:
    """Finds and loads the `__change_events` topic of a namespace. Implements the `EventTopics` of
    `policies/change_events.py`."""

    def __init__(self, catalog: TopicCatalog, get_topic: GetTopic) -> None:
        self._catalog = catalog
        self._get_topic = get_topic

    async def exists(self, name: TopicName) -> bool:
        """Whether the topic exists. Raises PulsarError when the metadata store does not answer."""
        return await self._catalog.topic_exists(name)

    async def open(self, name: TopicName, *, create: bool) -> TopicEventLog:
        """Loads the topic and returns the topic's log. Raises TopicNotFound when the topic is missing and `create` is
        not set, and the other errors of `BrokerService.get_topic`."""
        return TopicEventLog(await self._get_topic(name, create=create))
