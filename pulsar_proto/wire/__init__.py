"""The formats that connections carry: the frames and commands of clients, and the packets of bookies.

The modules use `pulsar_proto` and `pulsar_proto.records`; brokers, bookies and clients of both use them. The formats
are described in docs/WIRE_FORMATS.md.
"""
