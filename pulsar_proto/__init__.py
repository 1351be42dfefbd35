"""Turns bytes into values and back, for every wire and stored format of Pulsar and BookKeeper.

This package holds the code that both `wire` and `records` need: names, ids, errors, checksums, and work on protobuf's
encoding. `wire` has the formats that connections carry, `records` the stored formats, and `pb` the messages that protoc
made. No code here does I/O, reads a clock or draws random numbers. This package imports no other package of the
project, and all other packages may import it.
"""
