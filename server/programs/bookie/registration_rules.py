"""Decides what to do next with a bookie's two records in the cluster.

`available/<id>` says that the bookie takes writes, `available/readonly/<id>` that it only serves reads. Both records
are ephemeral. When the mode changes, the new record is made before the old one is deleted (ZKRegistrationManager), so
that no client takes the bookie for dead. A record of another session is this bookie's own, from before a kill or an
expiry, because no other bookie can have its cookie and its folders. At the path where the record of this session
belongs, the bookie waits until the old record disappears; at the path where no record belongs, it deletes the old
record."""

from enum import Enum


class Wanted(Enum):
    WRITABLE = "writable"
    READ_ONLY = "read-only"


class SeenRecord(Enum):
    """The finding at one of the two paths: no record, a record of the present session, or a record of a former
    session."""

    ABSENT = "absent"
    OURS = "ours"
    """A record that was made in the present session."""
    FORMER = "former"
    """A record that was made in a former session."""


class Step(Enum):
    CREATE = "create the wanted record"
    AWAIT_END = "wait until the wanted record's former session ends"
    DELETE_OTHER = "delete the other record"
    REGISTERED = "nothing is left to do"


def next_step(wanted: SeenRecord, other: SeenRecord) -> Step:
    """Returns the next step. `wanted` is the record at the path where the bookie is to be registered, and `other` the
    record at the other path."""
    if wanted is SeenRecord.FORMER:
        return Step.AWAIT_END
    if wanted is SeenRecord.ABSENT:
        return Step.CREATE
    return Step.REGISTERED if other is SeenRecord.ABSENT else Step.DELETE_OTHER
