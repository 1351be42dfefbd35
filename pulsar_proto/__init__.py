"""Bytes to values and back for every wire and stored format of Pulsar and BookKeeper. No I/O, clock or randomness."""
