"""The executors' part of `replay`, which sends the messages of one piece of a range to their targets.

A copy is numbered by its place in the source. Each ledger and schema version of the source has producers of its own,
which are named by run, ledger and version, and send entry id and batch index as the sequence id. So a topic with
deduplication takes each copy once, however often a run is repeated, even when the range has grown at its end or has
lost its beginning to retention.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from magnetar.spark.jobs.replay.replay_values import BadRow, Encode, encoder_of
from magnetar.spark.source.client.partition_producer import OutgoingMessage, PartitionProducer, ProducerSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import Options, address_of
from magnetar.spark.source.row_writer import Pace, java_string_hash
from pulsar_proto.errors import IncompatibleSchema
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

BATCH_INDEX_BITS = 24
"""A sequence id has the entry id in its upper bits, and the index in the batch in this many lower bits."""
PRODUCERS_MAX = 100
"""Each producer has a connection of its own. When one more than this is needed, all producers are closed; a producer
that is needed again is made anew."""
ERROR = "replay_error"
"""The property of a parked message (a message that was set aside in the park topic) that says why the message was
parked."""
RESULT = "target string, parked boolean, messages bigint, already bigint"


class CopyFailed(Exception):
    """A message cannot be copied, which ends the job. The text names the message, and says what can be done."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy, and the message that it is made from. `version` is the version of the schema with which the value was
    written."""

    message: OutgoingMessage
    ledger: int
    sequence: int
    version: bytes
    source: str
    parked: bool


@dataclass
class CopyCounts:
    """The numbers of copies that went to one target."""

    messages: int = 0
    already: int = 0
    """How many of the copies an earlier attempt had stored."""


@dataclass
class CopyWriter:
    """Writes the copies of one task. The object is pickled to the executors, where `mapInArrow` calls it with the
    task's messages in the order of their source."""

    service: dict[str, str] = field(repr=False)  # the options may hold a token
    run_id: str
    park_topic: str
    per_second: int
    transforms_value: bool
    dry: bool
    """Whether the job does everything except sending the copies."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes the columns `target`, `source`, `id`, `key`, `ordering`, `time` (ms), `properties`, `value`, `version`,
        `error` and, for transformed values, `fields`. Yields a row of RESULT for each target when everything is stored.
        Raises CopyFailed for a message that cannot be copied."""
        address = address_of(Options(self.service))
        client = PulsarClient(address.service_url, address.login)
        try:
            forms = CopySchemas(client)
            outlets = CopyProducers(client, forms, self.run_id, self.transforms_value, self.dry)
            pace = Pace(0 if self.dry else self.per_second)
            for batch in batches:
                for row in batch.to_pylist():
                    if outlets.send(self._copy(row, forms)) and pace.is_due():
                        outlets.flush()
                        pace.wait()
            outlets.close()
            rows = [(*key, told.messages, told.already) for key, told in outlets.told.items()]
            columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
            kinds = (pa.string(), pa.bool_(), pa.int64(), pa.int64())
            arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["target", "parked", "messages", "already"])
        finally:
            client.close()

    def _copy(self, row: dict[str, Any], forms: "CopySchemas") -> Copy:
        found = pb.MessageIdData.FromString(row["id"])
        sequence = found.entryId << BATCH_INDEX_BITS | max(found.batch_index, 0)
        target, value, error = row["target"], row["value"], row["error"]
        if not target:
            raise CopyFailed(f"{_named(row, found)} has no property REAL_TOPIC: say --to-topic")
        if self.transforms_value and value is not None and not error:
            try:
                value = forms.encode(target, row["source"])(row["fields"])
            except BadRow as bad:
                error = str(bad)
        if error and not self.park_topic:
            raise CopyFailed(f"{_named(row, found)}: {error}; --park-topic puts such messages aside")
        properties = tuple(row["properties"])
        if error:
            target, properties = self.park_topic, (*properties, (ERROR, error))
        message = OutgoingMessage(target, row["key"], row["time"] or 0, properties, value, row["ordering"])
        return Copy(message, found.ledgerId, sequence, row["version"], row["source"], bool(error))


def _named(row: dict[str, Any], found: pb.MessageIdData) -> str:
    index = f":{found.batch_index}" if found.batch_index >= 0 else ""
    return f"message {found.ledgerId}:{found.entryId}{index} of {row['source']}"


class CopySchemas:
    """Finds the schemas of copies. A transformed value has the target's schema, or the source's schema if the target
    has none. Any other value has the schema that it was written with."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._schemas: dict[tuple[str, bytes | None], pb.Schema | None] = {}
        self._encoders: dict[str, Encode] = {}

    def encode(self, target: str, source: str) -> Encode:
        """Returns the encoder of values for a target. Raises BadTransform when values of the target's schema cannot be
        written."""
        known = self._encoders.get(target)
        if known is None:
            known = self._encoders[target] = encoder_of(self.of_target(target, source))
        return known

    def of_target(self, target: str, source: str) -> pb.Schema | None:
        return self._schema(target) or self._schema(source)

    def of_message(self, source: str, version: bytes) -> pb.Schema | None:
        return self._schema(source, version) if version else None

    def _schema(self, topic: str, version: bytes | None = None) -> pb.Schema | None:
        key = (TopicName.parse(topic).base.full, version)
        if key not in self._schemas:
            self._schemas[key] = self._client.persist(lambda: self._client.schema(*key))
        return self._schemas[key]


@dataclass
class CopyProducers:
    """The producers for the ledger and schema version that is being copied. The next ledger or version gets new
    producers."""

    client: PulsarClient
    forms: CopySchemas
    run_id: str
    transforms_value: bool
    dry: bool
    told: dict[tuple[str, bool], CopyCounts] = field(default_factory=dict)
    _group: tuple[int, bytes] = (-1, b"")
    _partitions: dict[str, list[str]] = field(default_factory=dict)
    _producers: dict[tuple[str, bool], tuple[PartitionProducer, CopyCounts]] = field(default_factory=dict)

    def send(self, copy: Copy) -> bool:
        """Sends a copy and returns True. Returns False when nothing is sent: in a dry run, or because an earlier
        attempt sent the copy."""
        message = copy.message
        group = (copy.ledger, copy.version)
        if group != self._group:
            self.close()
            self._group = group
        told = self.told.setdefault((message.topic, copy.parked), CopyCounts())
        told.messages += 1
        if self.dry:
            return False
        key = (self._partition(copy), copy.parked)
        if key not in self._producers:
            if len(self._producers) >= PRODUCERS_MAX:
                self.close()
            self._producers[key] = self._producer(key[0], copy), told
        producer, _ = self._producers[key]
        producer.send(message, copy.sequence)
        return copy.sequence > producer.last_sequence_id

    def _producer(self, partition: str, copy: Copy) -> PartitionProducer:
        """Returns a new producer. A producer for parked messages has no schema, because the park topic takes values of
        any schema."""
        name = f"replay-{self.run_id}-{copy.ledger}-{copy.version.hex()}{'-parked' if copy.parked else ''}"
        schema = None
        if not copy.parked:
            forms, source = self.forms, copy.source
            if self.transforms_value:
                schema = forms.of_target(copy.message.topic, source)
            else:
                schema = forms.of_message(source, copy.version)
        try:
            return PartitionProducer(self.client, partition, name, schema, ProducerSettings())
        except IncompatibleSchema as error:
            raise CopyFailed(f"{copy.message.topic} does not take the schema of {copy.source}: {error}") from error

    def _partition(self, copy: Copy) -> str:
        """Returns the partition for a copy. A copy with a key goes to the partition that Java's clients choose by the
        key's hash. Copies without a key go to the next partition with each entry of the source. Both rules depend on
        the message alone, so every attempt chooses the same partition."""
        topic = copy.message.topic
        names = self._partitions.get(topic)
        if names is None:
            names = self.client.persist(lambda: self.client.partitions(topic, create=True))
            self._partitions[topic] = names
        if len(names) == 1:
            return names[0]
        key = copy.message.key
        number = copy.sequence >> BATCH_INDEX_BITS if key is None else java_string_hash(key)
        return names[number % len(names)]

    def flush(self) -> None:
        for producer, _ in self._producers.values():
            producer.flush()

    def close(self) -> None:
        """Closes the producers when everything is stored, and adds to the counts how many messages the producers
        skipped."""
        self.flush()
        for producer, told in self._producers.values():
            told.already += producer.skipped
            producer.close()
        self._producers.clear()
