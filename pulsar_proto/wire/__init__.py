"""The formats that connections carry: the frames and commands of clients, and the packets of bookies.

The modules import `pulsar_proto` and `pulsar_proto.records`. Brokers, bookies, and the clients of brokers and bookies
use them. The formats are described in docs/WIRE_FORMATS.md.
"""
