"""The pauses between tries."""

from pulsar_proto.backoff import backoff


def test_pauses_double_up_to_the_longest() -> None:
    assert [backoff(n, 5000, 300_000) for n in (1, 2, 3, 7, 8, 99)] == [5000, 10000, 20000, 300_000, 300_000, 300_000]
    assert backoff(10**9, 0.01, 0.5) == 0.5


def test_a_first_pause_beyond_the_longest_is_cut_to_it() -> None:
    assert backoff(1, 60, 5) == 5
