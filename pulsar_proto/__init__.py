"""Turns bytes into values and back, for every wire and stored format of Pulsar and BookKeeper.

This room holds what both of its inner rooms need: names, ids, errors, checksums and protobuf's own tricks. `wire` is
what connections carry, `records` what is stored, `pb` the messages that protoc made. Nothing here does I/O or knows a
clock or chance, and nothing of ours outside of it is imported; everybody else may import it.
"""
