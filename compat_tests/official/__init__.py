"""Runs the official Python client's own test suite against a fresh server: `make compat`.

The suite is not part of this project and is never fetched here. PULSAR_CLIENT_SUITE names a folder that has it.
"""
