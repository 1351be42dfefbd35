"""Entry metadata of a broker, as a Java broker writes it before a client's payload; ours reads it and writes none."""

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import MAGIC_BROKER_ENTRY_METADATA


def build_broker_entry_metadata(metadata: pb.BrokerEntryMetadata) -> bytes:
    """Builds the 0x0e02 block that goes before a client's payload."""
    block = metadata.SerializeToString()
    return MAGIC_BROKER_ENTRY_METADATA.to_bytes(2, "big") + len(block).to_bytes(4, "big") + block
