"""Which candidate becomes the auditor, by the votes."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.repair.election_rules import PlaceInLine, VoteStanding, leader_of, place_in_line


def test_the_lowest_number_leads_and_each_watches_the_one_before() -> None:
    votes = ["V_0000000012", "V_0000000007", "V_0000000009", "other"]
    assert place_in_line(votes, "V_0000000007") == PlaceInLine(VoteStanding.LEADER, "V_0000000007")
    assert place_in_line(votes, "V_0000000009") == PlaceInLine(VoteStanding.WAITING, "V_0000000007")
    assert place_in_line(votes, "V_0000000012") == PlaceInLine(VoteStanding.WAITING, "V_0000000009")
    assert leader_of(votes) == "V_0000000007"


def test_who_has_no_vote_any_more_votes_again() -> None:
    assert place_in_line(["V_0000000001"], "V_0000000000") == PlaceInLine(VoteStanding.GONE)
    assert leader_of(["other"]) is None


@given(st.sets(st.integers(0, 2**31 - 1), min_size=1))
def test_there_is_one_leader_and_a_chain_behind_it(numbers: set[int]) -> None:
    votes = [f"V_{number:010d}" for number in numbers]
    places = {vote: place_in_line(votes, vote) for vote in votes}
    assert [vote for vote, place in places.items() if place.standing is VoteStanding.LEADER] == [leader_of(votes)]
    watched = [place.watch for place in places.values() if place.standing is VoteStanding.WAITING]
    assert len(set(watched)) == len(votes) - 1, "each end wakes at most one"
