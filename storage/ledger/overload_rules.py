"""Decides what the client does when a bookie is overloaded: it waits and asks again. No I/O, no clock.

Apache's client takes TooManyRequests for a failure of the bookie and changes the ensemble (PendingAddOp.writeComplete).
That moves the load to the next bookie, and ends the writing of a ledger if there is no other bookie. This client asks
the same bookie again, until the deadline of the request.
"""

from magnetar.storage.ledger.ledger_errors import BookieOverloaded
from pulsar_proto.backoff import backoff
from pulsar_proto.wire.bookie_wire import BookieRc

RETRY_SECONDS_MIN = 0.01
RETRY_SECONDS_MAX = 0.5

_OVERLOAD = frozenset({int(BookieRc.ETOOMANYREQUESTS), BookieOverloaded.code})


def is_overload(rc: int) -> bool:
    """Whether the return code of an add or read asks its sender to slow down."""
    return rc in _OVERLOAD


def retry_seconds(refusals: int) -> float:
    """Returns how long to wait after a request was refused `refusals` times, which is at least 1."""
    return backoff(refusals, RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)
