"""The stored formats: entries of ledgers with their digest, the messages in them, and the records of the metadata
store.

The modules import `pulsar_proto` alone, never `pulsar_proto.wire`; all other packages may import them. The formats are
described in docs/WIRE_FORMATS.md.
"""
