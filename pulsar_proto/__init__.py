"""Turns bytes into values and back, for every wire and stored format of Pulsar and BookKeeper.

This room holds the code that both of its inner rooms need: names, ids, errors, checksums, and work on protobuf's
encoding. `wire` has the formats that connections carry, `records` the stored ones, and `pb` the messages that protoc
made. No code here does I/O, reads a clock or draws random numbers. This room imports no other room of the project, and
all others may import it.
"""
