"""The states in which a broker can be."""

from enum import Enum


class BrokerState(Enum):
    """The states, in the order in which a broker passes through them (PulsarService.State)."""

    INIT = "init"
    """The ports listen, and the broker is about to join its cluster. Lookups are answered."""
    STARTED = "started"
    """The broker is a member of its cluster."""
    CLOSING = "closing"
    """The broker has given its bundles away. Lookups are refused, so that clients ask another broker."""
