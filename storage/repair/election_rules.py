"""Decides which bookie is the cluster's auditor: the bookie whose vote has the lowest number. No I/O.

Votes are ephemeral sequential records. Each voter watches only the vote before its own, so that the end of one vote
wakes one voter and not all of them. Source: ZkLedgerAuditorManager of BookKeeper 4.17.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

VOTE = "V_"


class VoteStanding(Enum):
    """The situation of a voter among all votes, which decides what the voter has to do."""

    LEADER = "leader"
    WAITING = "waiting"
    GONE = "gone"
    """The voter's own vote does not exist any more, so the voter has to vote again."""


class PlaceInLine(NamedTuple):
    """The place of one vote among all votes."""

    standing: VoteStanding
    watch: str | None = None
    """The name of the vote to watch: the leader watches its own vote, a waiting voter the vote before its own."""


def place_in_line(votes: Sequence[str], mine: str) -> PlaceInLine:
    """Returns the place of the vote `mine`. `votes` holds the names of all records below the election's record, in any
    order; names that no vote can have are ignored."""
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
