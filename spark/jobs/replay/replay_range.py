"""The messages that a replay reads: a range of each partition, fixed before the first copy is written.

The data source's planner finds the message of a time by a seek and a request for the last id, so the planner never
waits at an empty partition. Every range has an end, so a job whose target is also its source never reads its own
copies.
"""

import json
import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.source.admission import Admission
from magnetar.spark.source.client.named_subscription import NamedSubscription
from magnetar.spark.source.options import read_options
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, Range
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName

DEAD_LETTER_SUBSCRIPTION = "magnetar-replay"
"""The subscription that remembers which dead letters were sent back, and makes the broker keep the other dead
letters."""
ID = re.compile(r"\d+:\d+(:-?\d+){0,2}")
PIECE_BYTES = 32 * 1024 * 1024
PIECE_MESSAGES = 100_000
PIECE_SECONDS = 3
"""The limits of a piece of a range; a piece is one Spark job and one line of progress. With --rate, a piece takes at
most PIECE_SECONDS."""


@dataclass(frozen=True, slots=True)
class RangeEdge:
    """Where a range begins or ends: a time in milliseconds since the epoch, or an id for each partition. An id under
    the name "" belongs to the only partition. When neither is given, the range has no limit at that end."""

    time: int | None = None
    ids: Mapping[str, str] | None = None

    @staticmethod
    def parse(text: str) -> "RangeEdge":
        """Parses an ISO time (in UTC unless it names a zone), milliseconds, an id as clients print it, or a JSON object
        of partition to id. Raises JobFailed for any other text."""
        if not text:
            return RangeEdge()
        if text.isdecimal():
            return RangeEdge(time=int(text))
        if ID.fullmatch(text):
            return RangeEdge(ids={"": text})
        if text.startswith("{"):
            return RangeEdge(ids=_ids(text))
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            raise JobFailed(
                f"'{text}' is neither milliseconds, an ISO time, ledger:entry, nor JSON of partition to ledger:entry"
            ) from None
        return RangeEdge(time=round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000))

    def by_partition(self, topic: str, partitions: list[str]) -> dict[str, str]:
        """Returns the ids under the names of their partitions. Raises JobFailed when a name is not the name of a
        partition, and when there is a single id for several partitions."""
        ids = self.ids or {}
        if "" in ids:
            if len(partitions) != 1:
                raise JobFailed(
                    f"{topic} has {len(partitions)} partitions: give ids as JSON, "
                    f'such as {{"{partitions[0]}": "{ids[""]}"}}'
                )
            return {partitions[0]: ids[""]}
        unknown = sorted(set(ids) - set(partitions))
        if unknown:
            raise JobFailed(f"{unknown[0]} is no partition of {topic}; there are {', '.join(partitions)}")
        return dict(ids)


def _ids(text: str) -> dict[str, str]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise JobFailed(f"'{text}' is not JSON: {error}") from None
    if not given or not all(isinstance(value, str) and ID.fullmatch(value) for value in given.values()):
        raise JobFailed(f'\'{text}\': expected partitions and their ids, such as {{"orders-partition-0": "3:14"}}')
    return {TopicName.parse(name).full: value for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class Extent:
    """The range of each partition. If the user gave times, a message in a range counts only if its publish time, in
    milliseconds, is at least `since` and less than `before`. The ranges alone do not ensure this: when the clocks of
    producers differ, messages are not in the order of their times."""

    ranges: Mapping[str, Range]
    since: int | None = None
    before: int | None = None

    @property
    def is_empty(self) -> bool:
        return all(each.is_empty for each in self.ranges.values())

    def read_options(self) -> dict[str, str]:
        """Returns the data source's options for reading exactly this extent, which must not be empty."""
        busy = {name: each for name, each in self.ranges.items() if not each.is_empty}
        starts = {name: _first_of(each.after) for name, each in busy.items() if not each.after.is_before_all}
        options = {
            "topics": ",".join(busy),
            "endingOffsets": json.dumps({name: str(each.upto) for name, each in busy.items()}),
        }
        return options | ({"startingOffsets": json.dumps(starts)} if starts else {})


def _first_of(after: Bound) -> str:
    """Returns the id of the message, or of the entry, that follows a place in a partition."""
    if after.batch_index != WHOLE_ENTRY:
        return str(Bound(after.ledger, after.entry, after.batch_index + 1))
    return str(Bound(after.ledger, after.entry + 1))


class ReplayRanges:
    """Asks the broker for ranges and their pieces. The caller calls `close` at the end."""

    def __init__(self, service: Mapping[str, str], arguments: Namespace) -> None:
        self._arguments = arguments
        self._service = service
        self._planner: Planner | None = None
        self._admission: Admission | None = None

    def close(self) -> None:
        if self._admission is not None:
            self._admission.close()
        if self._planner is not None:
            self._planner.close()

    def _open(self, topics: list[str], **more: str) -> Planner:
        rate = self._arguments.rate
        limits = {
            "maxBytesPerTrigger": str(PIECE_BYTES),
            "maxOffsetsPerTrigger": str(min(PIECE_MESSAGES, rate * PIECE_SECONDS) if rate else PIECE_MESSAGES),
        }
        given = {**self._service, **limits, "topics": ",".join(topics), "failOnDataLoss": "false", **more}
        options = read_options(given, streaming=False)
        self.close()
        self._planner = Planner(options)
        self._admission = Admission(self._planner, options)
        return self._planner

    def extent(self) -> Extent:
        """Returns the extent to be read. Raises JobFailed for options that make no sense for the topic, and
        TopicNotFound when the topic does not exist."""
        return self._dead_letters() if self._arguments.dlq_of else self._of_topic()

    def _of_topic(self) -> Extent:
        arguments = self._arguments
        name = TopicName.parse(arguments.topic)
        if name.domain != "persistent":
            raise JobFailed(f"{name.full} keeps no messages: only persistent topics can be replayed")
        start, end = RangeEdge.parse(arguments.from_), RangeEdge.parse(arguments.to)
        partitions = self._open([name.full]).partitions()
        options = {}
        for edge, option in ((start, "starting"), (end, "ending")):
            if edge.time is not None:
                options[f"{option}Time"] = str(edge.time)
            if edge.ids:
                options[f"{option}Offsets"] = json.dumps(edge.by_partition(name.full, partitions))
        planner = self._open([name.full], **options)
        ranges = {each: Range(planner.start(each), min(planner.end(each), planner.last(each))) for each in partitions}
        return Extent(ranges, start.time, end.time)

    def _dead_letters(self) -> Extent:
        """Returns the ranges of the dead letters, from the end of the last run to the present end. Returns no ranges
        when no dead-letter topic exists yet."""
        topic, colon, subscription = self._arguments.dlq_of.rpartition(":")
        if not colon or not subscription or topic in ("persistent", ""):
            raise JobFailed(f"--dlq-of {self._arguments.dlq_of}: expected TOPIC:SUBSCRIPTION")
        client = self._open([topic]).client
        topics = self._dead_letter_topics(TopicName.parse(topic).full, subscription)
        named = NamedSubscription(client, DEAD_LETTER_SUBSCRIPTION)
        try:
            starts = {name: named.mark_delete(name) for name in topics}
        finally:
            named.close()
        if not topics:
            return Extent({})
        planner = self._open(topics)
        return Extent({name: Range(start, planner.last(name)) for name, start in starts.items()})

    def _dead_letter_topics(self, topic: str, subscription: str) -> list[str]:
        """Returns the dead-letter topics that exist. Java's clients name one dead-letter topic after the topic, clients
        of C++ and Python name a dead-letter topic after each partition."""
        assert self._planner is not None
        client = self._planner.client
        found: list[str] = []
        for name in dict.fromkeys([topic, *self._planner.partitions()]):
            dead = f"{name}-{subscription}-DLQ"
            try:
                found += client.persist(lambda dead=dead: client.partitions(dead))  # type: ignore[misc]
            except TopicNotFound:
                continue
        return found

    def acknowledge(self, extent: Extent) -> None:
        """Acknowledges the dead letters of an extent, so that the next run begins behind them."""
        assert self._planner is not None
        named = NamedSubscription(self._planner.client, DEAD_LETTER_SUBSCRIPTION)
        try:
            for name, each in extent.ranges.items():
                named.acknowledge(name, each.upto)
        finally:
            named.close()

    def next_piece(self, extent: Extent, done: Mapping[str, Bound]) -> Extent:
        """Returns the next piece, which begins after the positions `done`."""
        assert self._admission is not None
        left = {name: Range(done.get(name, each.after), each.upto) for name, each in extent.ranges.items()}
        busy = {name: each for name, each in left.items() if not each.is_empty}
        ends = self._admission.ends(busy)
        return Extent({name: Range(each.after, ends[name]) for name, each in busy.items()}, extent.since, extent.before)
