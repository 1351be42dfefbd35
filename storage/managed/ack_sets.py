"""Ack sets: the indexes of a batch that are still to be consumed, as words of a java.util.BitSet or as one integer.
Pure.

Bit k says that index k is still to be consumed (PIP-54). The wire and the records carry words. `AckState` keeps an
integer, because Python ANDs two integers in one step, however long the batch is.
"""

import struct
from collections.abc import Sequence

WORD_MASK = 2**64 - 1


def mask_of_words(words: Sequence[int]) -> int:
    """Returns the words (signed or unsigned, least significant first) as one integer."""
    if len(words) == 1:
        return words[0] & WORD_MASK
    # All words in one step: shifting word by word would be quadratic, and a client chooses how many there are.
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *[word & WORD_MASK for word in words]), "little")


def words_of_mask(mask: int) -> list[int]:
    """Returns the integer's words, signed, without zero words at the end."""
    count = (mask.bit_length() + 63) // 64
    return list(struct.unpack(f"<{count}q", mask.to_bytes(8 * count, "little")))
