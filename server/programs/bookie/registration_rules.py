"""What a bookie's two records in the cluster should be turned into next. No I/O.

`available/<id>` says that it takes writes, `available/readonly/<id>` that it only serves reads; both are ephemeral. At
a change the new record is made before the old one goes (ZKRegistrationManager), so that no client takes the bookie for
dead. A record of another session is our own from before a kill or an expiry: nobody else can have our cookie and our
folders. It is waited for where ours must stand, and deleted where none must be.
"""

from enum import Enum


class Wanted(Enum):
    WRITABLE = "writable"
    READ_ONLY = "read-only"


class Seen(Enum):
    """What stands at one of the two paths."""

    ABSENT = "absent"
    OURS = "ours"
    """Made in the session that is now."""
    FORMER = "former"
    """Made in another session."""


class Step(Enum):
    CREATE = "create the wanted record"
    AWAIT_END = "wait until the wanted record's former session ends"
    DELETE_OTHER = "delete the other record"
    REGISTERED = "nothing is left to do"


def next_step(wanted: Seen, other: Seen) -> Step:
    """`wanted` and `other`: what stands where the bookie is to be registered, and where it is not to be."""
    if wanted is Seen.FORMER:
        return Step.AWAIT_END
    if wanted is Seen.ABSENT:
        return Step.CREATE
    return Step.REGISTERED if other is Seen.ABSENT else Step.DELETE_OTHER
