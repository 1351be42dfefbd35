"""Counts the messages of one partition on the driver, entry by entry.

Only an entry itself tells how many messages it holds, so the counter reads the entries, looks at their heads and drops
them. What it counts, and where batches end, is decided by `ranges.counting_rules`. The counter goes on where it was:
a query that reads batch after batch has every entry counted once.
"""

import logging
import time

import numpy as np

from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.decoding.entry_block import EntryBlock
from magnetar.spark.source.ranges.bounds import Bound
from magnetar.spark.source.ranges.counting_rules import Counts, Taken, Tally
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)

_PUBLISH_TIME = pb.MessageMetadata.DESCRIPTOR.fields_by_name["publish_time"].number


def counts_of(block: EntryBlock) -> Counts:
    """Returns the numbers of a block's entries. A chunked message counts where its first chunk is, because the task
    that reads the first chunk returns the message."""
    messages = block.permits()
    found = block.metadata.number(_PUBLISH_TIME)
    times = np.zeros(len(block), np.int64) if found is None else found.copy()
    for index, metadata in block.odd_metadata():
        if metadata is not None:
            times[index] = metadata.publish_time
            if metadata.chunk_id > 0 or metadata.HasField("marker_type"):
                messages[index] = 0
    return Counts(block.ledgers, block.entries, messages, block.stops - block.starts, times)


class MessageCounter:
    """Counts the messages of one partition from `after` on. The caller calls `close` at the end."""

    def __init__(
        self, client: PulsarClient, topic: str, after: Bound, settings: ReaderSettings, *, timeout_seconds: float
    ) -> None:
        """`timeout_seconds` is how long an entry that exists may take to come."""
        self._topic = topic
        self._timeout = timeout_seconds
        self._tally = Tally(after)
        self._reader = PartitionReader(client, topic, after.before_entry(), settings)

    def close(self) -> None:
        self._reader.close()

    @property
    def place(self) -> Bound:
        """Returns the end of what was taken."""
        return self._tally.place

    def count(self, upto: Bound, messages_max: int | None, bytes_max: int | None = None) -> int:
        """Reads ahead, but not behind `upto`, until more is counted than the limits let through. Returns the number of
        messages that wait to be taken."""
        tally = self._tally
        while True:
            is_known = tally.seen[:2] >= upto[:2]
            if is_known or _exceeds(tally.messages_max, messages_max) or _exceeds(tally.size_max, bytes_max):
                waiting = tally.waiting(upto)
                messages, size = int(waiting.messages.sum()), int(waiting.sizes.sum())
                if is_known or _exceeds(messages, messages_max) or _exceeds(size, bytes_max):
                    return messages
            self._read(upto)

    def _read(self, upto: Bound) -> None:
        """Counts one more block. When no entry comes, those up to `upto` are gone; the tasks that are to read them find
        that and report it."""
        try:
            block = self._reader.read_block_or_end(time.monotonic() + self._timeout)
        except TopicNotFound:
            block = None
        if block is not None:
            self._tally.add(counts_of(block))
        else:
            log.info("%s: no entry came between %s and %s", self._topic, self._tally.seen, upto)
            self._tally.seen = upto

    def take(
        self, upto: Bound, messages_max: int | None, bytes_max: int | None = None, *, force: bool = False
    ) -> Taken:
        """Takes the next messages up to `upto`, as many as the limits let through (`Tally.take`)."""
        self.count(upto, messages_max, bytes_max)
        return self._tally.take(upto, messages_max, bytes_max, force=force)

    def peek(self, upto: Bound) -> Counts:
        """Returns what is counted already and was not taken. Counts the next entries first when nothing is."""
        if not len(self._tally.waiting(upto)) and self._tally.seen[:2] < upto[:2]:
            self._read(upto)
        return self._tally.waiting(upto)


def _exceeds(number: int, limit: int | None) -> bool:
    return limit is not None and number > limit
