"""Magnetar: Apache Pulsar's broker and Apache BookKeeper's replicated log in asyncio Python."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("magnetar")
except PackageNotFoundError:  # the program runs from a source tree that was never installed
    __version__ = "0+source"
