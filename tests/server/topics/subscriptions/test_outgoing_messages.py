"""Entries on their way to consumers are limited in number, counted, and stripped of what is acknowledged."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions.outgoing_messages import (
    ENTRY_MESSAGES_MAX,
    MessagesMemo,
    bits_set,
    messages_of,
    unacknowledged,
)
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from tests.pulsar_proto.broker_entry import build_broker_entry_metadata
from tests.server.topics.scene import payload

HEADER = b"header.."


class Acks:
    """The acknowledged entries of ledger 7, and the ack sets of some others."""

    def __init__(self, acked: set[int], ack_sets: dict[int, list[int]] | None = None) -> None:
        self.acked = acked
        self.ack_sets = ack_sets or {}

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]:
        assert ledger_id == 7
        runs: list[tuple[int, int]] = []
        for entry_id in range(first, first + count):
            if entry_id in self.acked:
                continue
            if runs and sum(runs[-1]) == entry_id:
                runs[-1] = runs[-1][0], runs[-1][1] + 1
            else:
                runs.append((entry_id, 1))
        return runs

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None:
        return self.ack_sets.get(entry_id)


def run_of(*payloads: bytes, first: int = 0) -> EntryRun:
    return EntryRun(7, first, [HEADER + each for each in payloads], len(HEADER))


def test_payloads_are_cut_and_messages_counted() -> None:
    single, batch = payload(b"one"), payload(b"many", batch=12)
    messages = messages_of(run_of(single, batch, first=5))
    assert (messages.ledger_id, list(messages.entry_ids)) == (7, [5, 6])
    assert messages.payloads == [single, batch]
    assert messages.counts == [1, 12]
    assert messages.total == 13


def test_a_part_of_messages_has_their_counts() -> None:
    messages = messages_of(run_of(payload(b"one"), payload(b"many", batch=12), payload(b"few", batch=3), first=5))
    part = messages.part([1, 2])
    assert (list(part.entry_ids), list(part.counts), part.total) == ([6, 7], [12, 3], 15)
    assert messages.part([0, 1, 2]) is messages


def test_a_batch_of_less_than_one_message_counts_as_one() -> None:
    damaged = [payload(b"x", batch=count) for count in (-(2**31), -1)]
    empty = build_payload(
        pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=0), b""
    )
    messages = messages_of(run_of(*damaged, empty))
    assert messages.payloads == [*damaged, empty]
    assert messages.counts == [1, 1, 1]


def test_a_batch_cannot_claim_more_messages_than_its_consumer_can_ever_give_permits_for() -> None:
    messages = messages_of(run_of(payload(b"x", batch=2**31 - 1), payload(b"y")))
    assert messages.counts == [ENTRY_MESSAGES_MAX, 1]


def test_the_broker_s_own_metadata_is_taken_off() -> None:
    block = build_broker_entry_metadata(pb.BrokerEntryMetadata(broker_timestamp=5, index=9))
    messages = messages_of(run_of(block + payload(b"x", batch=3), payload(b"y")))
    assert messages.payloads == [payload(b"x", batch=3), payload(b"y")]
    assert messages.counts == [3, 1]


def test_an_entry_that_does_not_decode_goes_to_the_client_as_one_message() -> None:
    messages = messages_of(run_of(b"nonsense", b"\x0e\x02\xff\xff\xff\xff", payload(b"x")))
    assert messages.payloads == [b"nonsense", b"\x0e\x02\xff\xff\xff\xff", payload(b"x")]
    assert messages.counts == [1, 1, 1]


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 50), st.sets(st.integers(0, 70)), st.data())
def test_acknowledged_entries_are_left_out(size: int, first: int, acked: set[int], data: st.DataObject) -> None:
    payloads = [payload(b"%d" % number) for number in range(first, first + size)]
    start = data.draw(st.integers(0, size))
    left = unacknowledged(messages_of(run_of(*payloads, first=first)), start, Acks(acked))
    expected = [number for number in range(first + start, first + size) if number not in acked]
    assert list(left.entry_ids) == expected
    assert left.payloads == [payload(b"%d" % number) for number in expected]
    assert left.counts == [1] * len(expected)
    # What was held back is looked at again, from the same place.
    later = acked | data.draw(st.sets(st.integers(0, 70)))
    again = data.draw(st.integers(0, len(expected)))
    assert list(unacknowledged(left, again, Acks(later)).entry_ids) == [e for e in expected[again:] if e not in later]


def test_nothing_is_copied_where_nothing_is_acknowledged() -> None:
    messages = messages_of(run_of(payload(b"a"), payload(b"b")))
    assert unacknowledged(messages, 0, Acks(set())) is messages


def test_batches_acknowledged_in_part_keep_what_is_left() -> None:
    messages = messages_of(run_of(payload(b"a", batch=10), payload(b"b", batch=70), payload(b"c")))
    left = unacknowledged(messages, 0, Acks(set(), {0: [0b101], 1: [-1, 0b11]}))
    assert left.counts == [2, 66, 1]
    assert left.total == 69
    assert left.ack_sets == {0: [0b101], 1: [-1, 0b11]}
    assert messages.counts == [10, 70, 1], "shared with other subscriptions"


def test_words_may_be_signed() -> None:
    assert bits_set([-1]) == 64
    assert bits_set([-(2**63), 1]) == 2


def test_a_run_is_cut_once_for_all_subscriptions() -> None:
    memo = MessagesMemo()
    run = run_of(payload(b"a"))
    first = memo.messages_of(run)
    assert memo.messages_of(EntryRun(7, 0, run.entries, len(HEADER))) is first
    assert memo.messages_of(run_of(payload(b"a"))) is not first


def test_a_second_look_begins_with_the_whole_batch_again() -> None:
    messages = messages_of(run_of(payload(b"a", batch=3), payload(b"b")))
    left = unacknowledged(messages, 0, Acks(set(), {0: [0b111]}))
    for mask in (0b011, 0b001):
        left = unacknowledged(left, 0, Acks(set(), {0: [mask]}))
        assert left.ack_sets == {0: [mask]}
        assert left.counts == [mask.bit_count(), 1]
    assert unacknowledged(left, 1, Acks(set(), {0: [1]})).ack_sets is None
