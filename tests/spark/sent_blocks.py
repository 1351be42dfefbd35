"""Blocks of entries as a broker sends them."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.columns.batch_builder import BatchBuilder
from magnetar.spark.source.columns.metadata_columns import METADATA_FIELDS, RAW_FIELDS
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.decoding.entry_block import EntryBlock, block_of
from magnetar.spark.source.decoding.inbox import Inbox
from pulsar_proto.ids import unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import ping_frame

LEDGER = 2**40 + 5
TOPIC = "persistent://public/default/t-partition-3"


def message_frame(entry: int, payload: bytes) -> bytes:
    message_id = pb.MessageIdData(ledgerId=unsigned64(LEDGER), entryId=entry, partition=-1)
    message = pb.CommandMessage(consumer_id=1, message_id=message_id)
    command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=message).SerializeToString()
    size = len(command) + 4 + len(payload)
    return size.to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + payload


def sent_block(sent: Sequence[bytes]) -> EntryBlock:
    inbox = Inbox(1 << 23)
    for entry, payload in enumerate(sent):
        put(inbox, message_frame(entry, payload) + ping_frame())
    block, commands = block_of(*inbox.take())
    assert block is not None
    assert len(commands) == len(sent)
    return block


def put(inbox: Inbox, data: bytes) -> None:
    while data:
        room = inbox.room()
        part, data = data[: len(room)], data[len(room) :]
        room[: len(part)] = part
        inbox.received(len(part))


class Played(PartitionReader):
    """A reader that returns the blocks which the test gave it."""

    def __init__(self, blocks: list[EntryBlock]) -> None:
        self.blocks = blocks
        self._settings = ReaderSettings()

    def read_block(self, deadline: float) -> EntryBlock | None:
        return self.blocks.pop(0) if self.blocks else None

    def close(self) -> None:
        pass


def builder() -> BatchBuilder:
    values = ValueColumns(None, lambda version: None)
    return BatchBuilder(StructType([*values.fields, *METADATA_FIELDS, *RAW_FIELDS]), values, TOPIC)


def ordinary_payload(number: int, **fields: Any) -> bytes:
    meta = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1_700_000_000_000 + number, **fields)
    meta.properties.add(key="n", value=str(number))
    return build_payload(meta, b"%d" % number)
