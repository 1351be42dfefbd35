"""Who is the auditor: the bookie whose vote has the lowest number. Rules only, no I/O.

Votes are ephemeral sequential records; each voter watches the one before its own, so that an end wakes one. Source:
ZkLedgerAuditorManager of BookKeeper 4.17 (facts 7).
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

VOTE = "V_"


class Standing(Enum):
    LEADER = "leader"
    WAITING = "waiting"
    GONE = "gone"
    """The own vote is not among them: vote again."""


class Place(NamedTuple):
    standing: Standing
    watch: str | None = None
    """The vote to watch: the own one, or for who waits the one before it."""


def place_in_line(votes: Sequence[str], mine: str) -> Place:
    """`votes` are names of records as found, in any order; others than votes are passed over."""
    line = sorted((vote for vote in votes if is_vote(vote)), key=number_of)
    if mine not in line:
        return Place(Standing.GONE)
    position = line.index(mine)
    if position == 0:
        return Place(Standing.LEADER, mine)
    return Place(Standing.WAITING, line[position - 1])


def leader_of(votes: Sequence[str]) -> str | None:
    """The vote that counts, None without any."""
    return min((vote for vote in votes if is_vote(vote)), key=number_of, default=None)


def is_vote(name: str) -> bool:
    return name.startswith(VOTE) and name.removeprefix(VOTE).isdecimal()


def number_of(vote: str) -> int:
    return int(vote.removeprefix(VOTE))
