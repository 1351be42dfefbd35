"""What the client does when a bookie says that it has too much to do: it waits and asks again. No I/O, no clock.

Overload is not death. Apache's client takes BookieOverloaded for a failure of the bookie and changes the ensemble
(PendingAddOp.writeComplete), which hands the load to the next bookie and ends a ledger that has none. Ours asks the
same bookie again, up to the deadline that any answer to the request has.
"""

from magnetar.storage.ledger.ledger_errors import BookieOverloaded
from pulsar_proto.wire.bookie_wire import BookieRc

RETRY_SECONDS_MIN = 0.01
RETRY_SECONDS_MAX = 0.5

_OVERLOAD = frozenset({int(BookieRc.ETOOMANYREQUESTS), BookieOverloaded.code})


def is_overload(rc: int) -> bool:
    """Whether the return code of an add or read asks its sender to slow down."""
    return rc in _OVERLOAD


def retry_seconds(refusals: int) -> float:
    """How long to wait when a request was refused so many times, 1 or more."""
    return min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2.0 ** min(refusals - 1, 10))
