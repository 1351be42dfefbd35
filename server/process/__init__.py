"""What every server process needs, whatever it serves: its data folder's lock, file descriptors, log lines, signals,
the watch over its event loop, long work in portions, and the storage's faults as clients are told of them.

It is the lowest room of the server: it may use the metadata, the storage and the protocol, and every other room may use
it.
"""
