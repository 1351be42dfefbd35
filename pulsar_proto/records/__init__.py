"""The stored formats: entries of ledgers with their digest, the messages in them, and the records of the metadata
store.

The modules use `pulsar_proto` alone, never `pulsar_proto.wire`; everybody else may use them. The formats are described
in docs/WIRE_FORMATS.md.
"""
