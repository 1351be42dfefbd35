"""The examples of docs/WIRE_FORMATS.md are what the encoders make."""

import re
from pathlib import Path

import pytest

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.records.ledger_record import ledger_path
from pulsar_proto.records.payload import build_batch, build_payload
from pulsar_proto.wire import bookie_wire, bookie_wire_v3
from pulsar_proto.wire.commands import send_frame
from pulsar_proto.wire.frame_encoders import MessageFramer, ReceiptEncoder
from tests.pulsar_proto.broker_entry import build_broker_entry_metadata

PAGE = (Path(__file__).parents[2] / "docs" / "WIRE_FORMATS.md").read_text()
HEX_OF_PAGE = re.sub(r"\s+", "", PAGE)
KEY = master_key(b"")
PAYLOAD = build_payload(pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1), b"hi")
ENTRY = EntryCodec(1, DigestType.CRC32C).pack_run(0, -1, 0, [b"hello"])[0]
BATCH = build_batch([(pb.SingleMessageMetadata(partition_key="k"), b"hi"), (pb.SingleMessageMetadata(), b"you")])


def without(frame: bytes, key: str, entry: str) -> str:
    """The frame in hex, with words in the places of the master key and the entry, as the page has them."""
    return frame.hex().replace(ENTRY.hex(), entry).replace(KEY.hex(), key)


@pytest.mark.parametrize(
    "example",
    [
        send_frame(pb.CommandSend(producer_id=1, sequence_id=7), PAYLOAD).hex(),
        ReceiptEncoder(1).encode(7, None, 12, 300).hex(),
        MessageFramer(2).head(12, 300, len(PAYLOAD)).hex(),
        BATCH.hex(),
        build_broker_entry_metadata(pb.BrokerEntryMetadata(broker_timestamp=1, index=4)).hex(),
        without(bookie_wire.add_request(KEY, ENTRY), KEY.hex(), "entry"),
        bookie_wire.add_response(0, 1, 0).hex(),
        without(bookie_wire_v3.add_request(1, 1, 0, KEY, ENTRY), "masterkey", "entry"),
        bookie_wire_v3.add_responses(0, [bookie_wire_v3.echo_of(1, 1, 0)]).hex(),
        ENTRY.hex(),
    ],
)
def test_the_example_stands_on_the_page(example: str) -> None:
    assert example in HEX_OF_PAGE


@pytest.mark.parametrize("ledger_id", [12345, 4294967303])
def test_the_paths_of_ledgers_stand_on_the_page(ledger_id: int) -> None:
    assert ledger_path(ledger_id) in PAGE
