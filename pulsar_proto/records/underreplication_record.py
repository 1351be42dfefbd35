"""Records below `/ledgers/underreplication`: which ledgers lack replicas, which workers repair them, and which bookie
is the auditor.

Values are in protobuf's text format as Java writes it, one field a line; only the times of the periodic checks are
binary. Source: ZkLedgerUnderreplicationManager and ZkLedgerAuditorManager of BookKeeper 4.17; records of a real cluster
are in tests/vectors/underreplication.json.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import underreplication_pb2 as pb
from pulsar_proto.records.ledger_record import LEDGERS_ROOT
from pulsar_proto.text import NotText, check_text

ROOT = f"{LEDGERS_ROOT}/underreplication"
LAYOUT = f"{ROOT}/LAYOUT"
LEDGERS = f"{ROOT}/ledgers"
LOCKS = f"{ROOT}/locks"
DISABLE = f"{ROOT}/disable"
"""While this record exists, the auditor and the workers pause."""
LOST_BOOKIE_RECOVERY_DELAY = f"{ROOT}/lostBookieRecoveryDelay"
"""Holds seconds as decimal text. A write of this record starts an audit, even if the value stays the same."""
ELECTION = f"{ROOT}/auditorelection"
"""The parent of all votes; its own value is the winner's vote."""
VOTE_PREFIX = f"{ELECTION}/V_"
CHECK_ALL_LEDGERS_TIME = f"{ROOT}/checkallledgersctime"
PLACEMENT_CHECK_TIME = f"{ROOT}/placementpolicycheckctime"

LAYOUT_VALUE = b'type: "BASIC"\nversion: 1\n'

_NAME = re.compile(r"urL(\d{10,19})")

M = TypeVar("M", bound=Message)


def _name(ledger_id: int) -> str:
    return f"urL{ledger_id:010d}"


def mark_path(ledger_id: int) -> str:
    """Returns `/ledgers/underreplication/ledgers/0000/0000/0000/3039/urL0000012345`: four groups of 16 bits in hex,
    then the id in decimal."""
    groups = "/".join(f"{ledger_id >> shift & 0xFFFF:04x}" for shift in (48, 32, 16, 0))
    return f"{LEDGERS}/{groups}/{_name(ledger_id)}"


def lock_path(ledger_id: int) -> str:
    return f"{LOCKS}/{_name(ledger_id)}"


def ledger_id_of_name(name: str) -> int | None:
    """Returns the ledger that a mark or a lock of that name is for; None for a name that is neither."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match and _name(int(match[1])) == name else None


@dataclass(frozen=True, slots=True)
class UnderreplicatedLedger:
    """The mark of a ledger that lacks replicas. `replicas` are the ids of the bookies whose copies are missing."""

    replicas: tuple[str, ...]
    ctime_ms: int | None = None

    def merged(self, replicas: Iterable[str], ctime_ms: int) -> "UnderreplicatedLedger":
        """Returns the mark with further missing replicas and a new time (ZkLedgerUnderreplicationManager.
        handleLedgerUnderreplicatedAlreadyMarked)."""
        return UnderreplicatedLedger(tuple(dict.fromkeys((*self.replicas, *replicas))), ctime_ms)

    def serialize(self) -> bytes:
        return _text(pb.LedgerFormat(replica=self.replicas, ctime=self.ctime_ms))

    @staticmethod
    def parse(value: bytes) -> "UnderreplicatedLedger":
        """Parses a mark. Raises MalformedRecord."""
        message = _parsed(value, pb.LedgerFormat())
        return UnderreplicatedLedger(tuple(message.replica), message.ctime if message.HasField("ctime") else None)


def check_layout(value: bytes) -> None:
    """Checks the layout record. Raises MalformedRecord for a layout that this version does not know."""
    message = _parsed(value, pb.LayoutFormat())
    if (message.type, message.version) != ("BASIC", 1):
        raise MalformedRecord(f"the underreplication layout is {message.type} {message.version}, known is BASIC 1")


def lock_value(holder: str) -> bytes:
    return _text(pb.LockFormat(bookieId=holder))


def lock_holder(value: bytes) -> str:
    """Returns the name of the lock's holder. Raises MalformedRecord."""
    return _parsed(value, pb.LockFormat()).bookieId


def vote_value(bookie_id: str) -> bytes:
    return _text(pb.VoteFormat(bookieId=bookie_id))


def voter(value: bytes) -> str:
    """Returns the id of the bookie that the vote is for. Raises MalformedRecord."""
    return _parsed(value, pb.VoteFormat()).bookieId


def check_time_value(time_ms: int) -> bytes:
    return pb.CheckTimeFormat(ctime=time_ms).SerializeToString()


def check_time(value: bytes) -> int | None:
    """Returns the time of the last check in milliseconds since the epoch, or None when there was no check yet. Raises
    MalformedRecord."""
    try:
        message = pb.CheckTimeFormat.FromString(value)
    except DecodeError as error:
        raise MalformedRecord(f"the time of a check does not decode: {error}") from error
    return message.ctime if message.HasField("ctime") else None


def delay_value(seconds: int) -> bytes:
    return str(seconds).encode()


def delay_of(value: bytes) -> int:
    """Returns lostBookieRecoveryDelay in seconds. Raises MalformedRecord."""
    if not re.fullmatch(rb"\d{1,10}", value):
        raise MalformedRecord(f"lostBookieRecoveryDelay is {value[:40]!r}, not a number of seconds")
    return int(value)


def _text(message: Message) -> bytes:
    return text_format.MessageToString(message, as_utf8=True).encode()


def _parsed(value: bytes, message: M) -> M:
    try:
        parsed = text_format.Parse(value.decode(), message, allow_unknown_field=True)
        check_text(parsed)
    except (text_format.ParseError, UnicodeDecodeError, NotText) as error:
        raise MalformedRecord(f"{message.DESCRIPTOR.name} does not decode: {error}") from error
    return parsed
