"""Who is the cluster's auditor: the bookie whose vote has the lowest number. No I/O.

Votes are ephemeral sequential records. Each voter watches only the vote before its own, so that the end of one vote
wakes one voter and not all of them. Source: ZkLedgerAuditorManager of BookKeeper 4.17.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

VOTE = "V_"


class VoteStanding(Enum):
    """What a voter's own vote means at a look at all votes."""

    LEADER = "leader"
    WAITING = "waiting"
    GONE = "gone"
    """The voter's own vote is not there any more, so it has to vote again."""


class PlaceInLine(NamedTuple):
    """Where a vote stands among all."""

    standing: VoteStanding
    watch: str | None = None
    """The name of the vote to watch: the leader watches its own, a waiting voter the one before its own."""


def place_in_line(votes: Sequence[str], mine: str) -> PlaceInLine:
    """Returns where the vote `mine` stands. `votes`: the names of all records below the election's, in any order; names
    that are no votes are passed over."""
    line = sorted((vote for vote in votes if is_vote(vote)), key=number_of)
    if mine not in line:
        return PlaceInLine(VoteStanding.GONE)
    position = line.index(mine)
    if position == 0:
        return PlaceInLine(VoteStanding.LEADER, mine)
    return PlaceInLine(VoteStanding.WAITING, line[position - 1])


def leader_of(votes: Sequence[str]) -> str | None:
    """Returns the name of the vote that leads, or None when there is no vote."""
    return min((vote for vote in votes if is_vote(vote)), key=number_of, default=None)


def is_vote(name: str) -> bool:
    return name.startswith(VOTE) and name.removeprefix(VOTE).isdecimal()


def number_of(vote: str) -> int:
    return int(vote.removeprefix(VOTE))
