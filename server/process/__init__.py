"""The parts that every server process needs, whatever the process serves: the lock of the data folder, file
descriptors, log lines, signals, the watch over the event loop, long work in portions, the format of metrics, and the
translation of storage faults into errors for clients.

This is the lowest package of the server: it may use the metadata, the storage and the protocol, and most other packages
of the server use it.
"""
