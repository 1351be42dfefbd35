"""Ack sets: as words of a java.util.BitSet and as one integer they say the same."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask


@given(st.integers(0, 2**200 - 1))
def test_masks_survive_the_way_over_signed_words(mask: int) -> None:
    signed = words_of_mask(mask)
    assert all(-(2**63) <= word < 2**63 for word in signed)
    assert mask_of_words(signed) == mask
    assert mask_of_words([*signed, 0]) == mask


def test_a_mask_of_many_words_is_one_step() -> None:
    """Word by word this would take minutes, and an acknowledgement of some megabytes would stop the server."""
    words = [-1] * 500_000
    mask = mask_of_words(words)
    assert mask == (1 << 64 * len(words)) - 1
    assert words_of_mask(mask) == words
