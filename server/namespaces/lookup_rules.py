"""Decides which broker the answer of a lookup names. Does no I/O: `lookup_service.py` finds out the facts, which are
arguments here.

Sources: NamespaceService.findBrokerServiceUrl, searchForCandidateBroker.
"""

from dataclasses import dataclass
from enum import Enum

from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName, heartbeat_broker, sla_broker


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """The answer to a lookup."""

    is_redirect: bool
    """False: `broker` serves the topic. True: the client asks `broker` again, with `authoritative`."""
    broker: BrokerAddresses
    authoritative: bool
    """Whether a broker that may place the bundle has decided. A broker that gets a lookup with this flag takes the
    bundle without asking another broker."""


class NextStep(Enum):
    """The ways in which a lookup of a bundle without an owner continues."""

    TAKE = "take"
    """This broker becomes the owner of the bundle."""
    PLACE = "place"
    """This broker chooses the broker that gets the bundle."""
    ASK_LEADER = "ask_leader"
    """The client is redirected to the leader."""


def is_bound(namespace: str) -> bool:
    """Returns whether the namespace belongs to one broker, so that no load manager ever moves its bundles."""
    return heartbeat_broker(namespace) is not None or sla_broker(namespace) is not None


def reserved_for(bundle: BundleName) -> tuple[str, bool] | None:
    """Returns the id of the broker for which the bundle is reserved, and whether the reservation holds only while this
    broker is alive. Returns None for a bundle that is not reserved."""
    broker = heartbeat_broker(bundle.namespace)
    if broker is not None:
        return broker, False
    broker = sla_broker(bundle.namespace)
    return None if broker is None else (broker, True)


def next_step(*, authoritative: bool, is_leader: bool, leader_is_known: bool) -> NextStep:
    """Returns how to continue with a bundle that has no owner and is not reserved. If the leader is not known, or not
    registered, this broker decides by itself."""
    if authoritative:
        return NextStep.TAKE
    return NextStep.PLACE if is_leader or not leader_is_known else NextStep.ASK_LEADER


def redirect(to: BrokerAddresses, *, is_decided: bool) -> LookupAnswer:
    """Returns the answer that sends a client to another broker; `is_decided` says that the other broker shall take the
    bundle, and not only answer the lookup."""
    return LookupAnswer(True, to, is_decided)


def connect(owner: BrokerAddresses) -> LookupAnswer:
    """Returns the answer that names the bundle's owner. Every broker gives this answer when the bundle has an owner."""
    return LookupAnswer(False, owner, True)
