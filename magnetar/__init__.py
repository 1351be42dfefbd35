"""Magnetar: Apache Pulsar's broker and Apache BookKeeper's replicated log in asyncio Python."""

__version__ = "0.1.0"
"""The build takes the version of the package from this line. To ask `importlib.metadata` for it would take 15 ms of
every start."""
