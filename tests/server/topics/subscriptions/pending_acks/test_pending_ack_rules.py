"""Which transaction holds which messages of a subscription: conflicts, ends, replays of Apache's logs, and random
histories against a model that knows single messages only."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions.pending_acks import batch_parts, pending_ack_rules
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import PendingAckRules
from magnetar.server.topics.subscriptions.pending_acks.withheld_acks import WithheldAcks
from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask
from magnetar.storage.managed.ack_state import AckState
from pulsar_proto.errors import TransactionConflict
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.pending_ack_log import (
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
    parse_pending_ack_entry,
)
from tests.pulsar_proto.vectors import load, unhex
from tests.server.steps import finish

LOGS = {log["of"].rpartition("/")[2]: log for log in load("pending_ack_logs.json")}
A, B, C = TxnId(0, 1), TxnId(0, 2), TxnId(1, 2)


class OneLedger:
    """The ledger 12 with a hundred entries."""

    def last_entry(self, ledger_id: int) -> int | None:
        return 99 if ledger_id == 12 else None

    def next_ledger(self, ledger_id: int) -> int | None:
        return 12 if ledger_id < 12 else None

    def last_before(self, ledger_id: int) -> Position | None:
        return Position(12, 99) if ledger_id > 12 else None


def cursor() -> AckState:
    return AckState(OneLedger(), Position(12, -1))


def rules_on(acks: AckState) -> PendingAckRules:
    return PendingAckRules("persistent://public/default/t", "s", acks)


def whole(*entry_ids: int) -> list[PendingPosition]:
    return [PendingPosition(12, entry_id) for entry_id in entry_ids]


def part(entry_id: int, left: int, size: int = 3) -> list[PendingPosition]:
    """Returns an acknowledgement of the messages of a batch that are not in `left`."""
    return [PendingPosition(12, entry_id, tuple(words_of_mask(left)), size)]


def take(rules: PendingAckRules, txn_id: TxnId, positions: Sequence[PendingPosition]) -> None:
    """Holds the messages as the broker does: whole entries in one step if that is possible."""
    if not any(each.ack_set for each in positions) and rules.hold_entries(txn_id, [each[:2] for each in positions]):
        return
    rules.check(txn_id, positions)
    rules.hold(txn_id, positions)


def refusal(rules: PendingAckRules, txn_id: TxnId, positions: Sequence[PendingPosition]) -> str:
    with pytest.raises(TransactionConflict) as refused:
        take(rules, txn_id, positions)
    text = str(refused.value)
    start = (
        "org.apache.pulsar.transaction.common.exception.TransactionConflictException: "
        f"[persistent://public/default/t][s] Transaction:{txn_id} try to "
    )
    assert text.startswith(start)
    return text.removeprefix(start)


def test_an_entry_is_held_by_one_transaction_at_a_time() -> None:
    rules = rules_on(cursor())
    take(rules, A, whole(1, 2))
    assert refusal(rules, B, whole(5, 2)) == "ack message:12:2 (ackSet is null) in pending ack status."
    assert refusal(rules, A, whole(1)) == "ack message:12:1 (ackSet is null) in pending ack status."
    rules.let_go(A)
    take(rules, B, whole(5, 2))


def test_what_the_cursor_has_acknowledged_cannot_be_held() -> None:
    acks = cursor()
    acks.ack([(12, 1, None), (12, 4, [0b101])])
    rules = rules_on(acks)
    assert refusal(rules, A, whole(1)) == "ack message:12:1 (ackSet is null) already acked before."
    assert refusal(rules, A, part(4, 0b100)) == (
        "ack message:12:4 (ackSet with long[] size of 1) already acked before."
    )
    take(rules, A, part(4, 0b011))


def test_messages_of_a_batch_are_held_by_different_transactions() -> None:
    rules = rules_on(cursor())
    take(rules, A, part(7, 0b110))
    take(rules, B, part(7, 0b101))
    assert refusal(rules, C, part(7, 0b001)) == (
        "ack batch message:12:7 (ackSet with long[] size of 1) in pending ack status."
    )
    assert refusal(rules, C, whole(7)) == "ack message:12:7 (ackSet is null) in pending ack status."
    assert rules.let_go(A).acks == [(12, 7, [0b110])]
    take(rules, C, part(7, 0b110))


def test_one_command_may_name_an_entry_twice() -> None:
    acks = cursor()
    rules = rules_on(acks)
    take(rules, A, [*part(7, 0b110), *whole(7), *part(7, 0b101)])
    assert rules.let_go(A).acks == [(12, 7, None)]
    assert WithheldAcks(acks, rules).unacked_runs(12, 0, 10) == [(0, 10)]


def test_a_client_that_names_a_batch_smaller_than_its_ack_set_holds_no_other_messages() -> None:
    rules = rules_on(cursor())
    take(rules, A, [PendingPosition(12, 7, (0b110,), 1)])
    assert rules.let_go(A).acks == [(12, 7, [0b110])]


@pytest.mark.parametrize("size", [-1, 2**31 - 1])
def test_a_size_of_a_batch_that_cannot_be_costs_little(size: int) -> None:
    held = batch_parts.part_of(PendingPosition(12, 7, (0b110,), size))
    assert held.bits & 0b111 == 0b001
    assert held.size <= batch_parts.BATCH_MESSAGES_MAX


def test_held_messages_are_withheld_from_consumers() -> None:
    acks = cursor()
    acks.ack([(12, 0, None), (12, 6, [0b110])])
    rules = rules_on(acks)
    view = WithheldAcks(acks, rules)
    take(rules, A, [*whole(2, 3), *part(5, 0b110), *part(6, 0b101)])
    assert view.unacked_runs(12, 0, 10) == [(1, 1), (4, 6)]
    assert [view.ack_set_of(12, entry_id) for entry_id in (4, 5, 6)] == [None, [0b110], [0b100]]
    take(rules, B, part(6, 0b011))
    assert view.unacked_runs(12, 0, 10) == [(1, 1), (4, 2), (7, 3)], "nothing is left of entry 6"
    rules.let_go(B)
    assert view.unacked_runs(12, 0, 10) == [(1, 1), (4, 6)]


def test_a_cumulative_acknowledgement_is_held_by_one_transaction_and_only_grows() -> None:
    acks = cursor()
    acks.ack_cumulative(12, 1)
    rules = rules_on(acks)
    text = _refused_cumulative(rules, A, PendingPosition(12, 1))
    assert text.endswith("try to cumulative ack position: 12:1 within range of cursor's markDeletePosition: 12:1")
    rules.check_cumulative(A, PendingPosition(12, 4))
    rules.hold_cumulative(A, PendingPosition(12, 4))
    text = _refused_cumulative(rules, B, PendingPosition(12, 9))
    assert text.endswith(
        "Transaction:(0,2) try to cumulative batch ack position: 12:9 within range of current currentPosition: 12:4"
    )
    _refused_cumulative(rules, A, PendingPosition(12, 3))
    _refused_cumulative(rules, A, PendingPosition(12, 4))
    rules.check_cumulative(A, PendingPosition(12, 5, (0b100,), 3))
    rules.hold_cumulative(A, PendingPosition(12, 5, (0b100,), 3))
    _refused_cumulative(rules, A, PendingPosition(12, 5, (0b110,), 3))
    rules.check_cumulative(A, PendingPosition(12, 5))
    assert rules.let_go(A).cumulative == PendingPosition(12, 5, (0b100,), 3)
    rules.check_cumulative(B, PendingPosition(12, 2))


def _refused_cumulative(rules: PendingAckRules, txn_id: TxnId, position: PendingPosition) -> str:
    with pytest.raises(TransactionConflict) as refused:
        rules.check_cumulative(txn_id, position)
    return str(refused.value)


def test_a_committed_individual_acknowledgement_is_not_lost_beside_a_cumulative_one() -> None:
    rules = rules_on(cursor())
    rules.hold_cumulative(A, PendingPosition(12, 4))
    take(rules, B, whole(5))
    take(rules, A, whole(8))
    assert rules.let_go(B) == ({(12, 5): batch_parts.WHOLE}, None)
    held = rules.let_go(A)
    assert (held.acks, held.cumulative) == ([(12, 8, None)], PendingPosition(12, 4))


def test_an_acknowledgement_that_was_not_stored_is_undone_and_its_transaction_stays_known() -> None:
    acks = cursor()
    rules = rules_on(acks)
    take(rules, A, part(7, 0b110))
    take(rules, A, [*part(7, 0b101), *whole(1)])
    rules.undo(A, [*part(7, 0b101), *whole(1)])
    take(rules, B, [*part(7, 0b101), *whole(1)])
    rules.undo(B, [*part(7, 0b101), *whole(1)])
    assert WithheldAcks(acks, rules).unacked_runs(12, 0, 10) == [(0, 10)]
    assert rules.holds(B)
    assert rules.let_go(A).acks == [(12, 7, [0b110])]
    rules.hold_cumulative(A, PendingPosition(12, 4))
    rules.hold_cumulative(A, PendingPosition(12, 6))
    rules.undo_cumulative(A, PendingPosition(12, 6), (A, PendingPosition(12, 4)))
    assert rules.cumulative == (A, PendingPosition(12, 4))


def test_orphans_are_the_transactions_up_to_the_low_watermark_of_their_coordinator() -> None:
    rules = rules_on(cursor())
    take(rules, A, whole(1))
    take(rules, B, whole(2))
    take(rules, C, whole(3))
    rules.hold_cumulative(TxnId(0, 0), PendingPosition(12, 0))
    rules.note_end(TxnId(0, 3), -1)
    assert rules.orphans(0) == []
    rules.note_end(TxnId(0, 3), 1)
    rules.note_end(TxnId(0, 4), 0)
    assert rules.orphans(0) == [A, TxnId(0, 0)]
    assert rules.orphans(1) == []
    assert [rules.has_ended(each) for each in (A, B, C, TxnId(0, 3), TxnId(0, 5))] == [True, False, False, True, False]


def test_ended_transactions_are_forgotten_at_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_ack_rules, "ENDED_MAX", 2)
    rules = rules_on(cursor())
    for txn_id in (A, B, C):
        rules.note_end(txn_id)
    assert [rules.has_ended(each) for each in (A, B, C)] == [False, True, True]


# --- replays ----------------------------------------------------------------------------------------------------------


def replay(
    rules: PendingAckRules, acks: AckState, record: PendingAckRecord
) -> list[tuple[int, int, Sequence[int] | None]]:
    """Replays a record, and returns the individual acknowledgements that it committed."""
    committed: list[tuple[int, int, Sequence[int] | None]] = []
    for held in rules.replay(record):
        if held is not None:
            committed += held.acks
            acks.ack(held.acks)
            if held.cumulative is not None:
                acks.ack_cumulative(*held.cumulative.position, held.cumulative.ack_set)
    return committed


def replayed(log: str, acks: AckState) -> PendingAckRules:
    """Replays a log of Apache's, whose positions are in ledger 12 then."""
    rules = rules_on(acks)
    for entry in LOGS[log]["entries"]:
        for record in finish(parse_pending_ack_entry(unhex(entry["hex"]))):
            moved = tuple(each._replace(ledger_id=12) for each in record.positions)
            replay(rules, acks, record._replace(positions=moved))
    return rules


def test_a_log_of_apaches_with_conflicts_is_replayed_as_its_broker_decided() -> None:
    acks = cursor()
    rules = replayed("acks-1795354099-s__transaction_pending_ack", acks)
    assert [acks.is_acked(12, entry_id) for entry_id in range(5)] == [False, True, True, False, False]
    assert rules.holders == [TxnId(0, 7_000_000), TxnId(0, 10)]
    assert list(rules.positions_of(TxnId(0, 10))) == [(12, 4000)]


def test_a_cumulative_log_of_apaches_keeps_the_acknowledgement_whose_commit_apache_forgot() -> None:
    acks = cursor()
    rules = replayed("acks-1795354099-x__transaction_pending_ack", acks)
    assert acks.mark_delete == Position(12, 2)
    assert rules.holders == [TxnId(0, 12)]


def test_a_log_of_apaches_with_parts_of_a_batch_leaves_what_was_not_committed() -> None:
    acks = cursor()
    rules = replayed("bidx-1795354231-s__transaction_pending_ack", acks)
    assert acks.ack_set_of(12, 0) == [0b110]
    assert rules.transactions == 0


def test_a_batched_log_of_apaches_commits_every_other_transaction() -> None:
    acks = cursor()
    rules = replayed("bat-s__transaction_pending_ack", acks)
    assert [entry_id for entry_id in range(12) if acks.is_acked(12, entry_id)] == [0, 2, 4, 6, 8, 10]
    assert rules.transactions == 0


def test_a_replay_passes_over_an_acknowledgement_that_apaches_broker_refused() -> None:
    acks = cursor()
    rules = rules_on(acks)
    for txn_id, positions in ((A, whole(1)), (B, whole(1, 2)), (A, whole(1, 3))):
        replay(rules, acks, PendingAckRecord(PendingAckOp.ACK, txn_id, False, tuple(positions)))
    assert rules.holders == [A]
    assert list(rules.positions_of(A)) == [(12, 1), (12, 3)]


def test_a_replay_after_the_cursor_was_stored_commits_what_is_left() -> None:
    acks = cursor()
    acks.ack([(12, 3, None)])
    rules = rules_on(acks)
    replay(rules, acks, PendingAckRecord(PendingAckOp.ACK, A, False, tuple(whole(3, 4))))
    assert replay(rules, acks, PendingAckRecord(PendingAckOp.COMMIT, A)) == [(12, 4, None)]


@pytest.mark.parametrize("op", [PendingAckOp.COMMIT, PendingAckOp.ABORT])
def test_a_replay_of_many_positions_goes_in_steps(op: PendingAckOp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_ack_rules, "STEP_POSITIONS", 10)
    acks = cursor()
    rules = rules_on(acks)
    ack = PendingAckRecord(PendingAckOp.ACK, A, False, tuple(whole(*range(100))))
    held = [len(list(rules.positions_of(A))) for _ in rules.replay(ack)]
    assert held == [0] * 10 + list(range(10, 101, 10))
    left = [len(list(rules.positions_of(A))) for _ in rules.replay(PendingAckRecord(op, A))]
    assert left == list(range(90, -1, -10))
    assert rules.has_ended(A)


def test_a_replay_in_steps_passes_over_a_refused_acknowledgement_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_ack_rules, "STEP_POSITIONS", 2)
    acks = cursor()
    rules = rules_on(acks)
    replay(rules, acks, PendingAckRecord(PendingAckOp.ACK, A, False, tuple(whole(9))))
    replay(rules, acks, PendingAckRecord(PendingAckOp.ACK, B, False, tuple(whole(*range(10)))))
    assert rules.holders == [A]
    assert rules.held_of(12, 0) is None


# --- random histories -------------------------------------------------------------------------------------------------

ENTRIES, SIZE = 4, 3
FULL = 2**SIZE - 1
_acks = st.tuples(st.sampled_from([A, B, C]), st.integers(0, ENTRIES - 1), st.integers(1, FULL))
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), _acks),
        st.tuples(st.just("plain"), _acks),
        st.tuples(st.sampled_from(["commit", "abort"]), _acks),
    ),
    max_size=30,
)


class Model:
    """Knows single messages: (entry, index) -> its state."""

    def __init__(self) -> None:
        self.acked: set[tuple[int, int]] = set()
        self.held: dict[tuple[int, int], TxnId] = {}

    def messages(self, entry_id: int, bits: int) -> set[tuple[int, int]]:
        return {(entry_id, index) for index in range(SIZE) if bits >> index & 1}

    def is_free(self, entry_id: int, bits: int) -> bool:
        wanted = self.messages(entry_id, bits)
        if bits == FULL:  # an acknowledgement of the whole entry conflicts only if the whole entry is acknowledged
            return not (wanted <= self.acked or any(each in self.held for each in wanted))
        return not any(each in self.held or each in self.acked for each in wanted)

    def left(self, entry_id: int) -> int:
        taken = self.acked | set(self.held)
        return sum(1 << index for index in range(SIZE) if (entry_id, index) not in taken)


@given(_steps)
def test_random_histories_end_as_in_a_model_of_single_messages(steps: list[tuple[str, tuple[TxnId, int, int]]]) -> None:
    acks, model = cursor(), Model()
    rules = rules_on(acks)
    view = WithheldAcks(acks, rules)
    for step, (txn_id, entry_id, bits) in steps:
        positions = whole(entry_id) if bits == FULL else part(entry_id, FULL & ~bits, SIZE)
        if step == "hold":
            try:
                take(rules, txn_id, positions)
            except TransactionConflict:
                assert not model.is_free(entry_id, bits)
            else:
                assert model.is_free(entry_id, bits)
                model.held.update(dict.fromkeys(model.messages(entry_id, bits), txn_id))
        elif step == "plain":
            acks.ack([(12, entry_id, positions[0].ack_set or None)])
            model.acked |= model.messages(entry_id, bits)
        else:
            held = rules.let_go(txn_id)
            mine = {message for message, holder in model.held.items() if holder == txn_id}
            for message in mine:
                del model.held[message]
            if step == "commit":
                acks.ack(held.acks)
                model.acked |= mine
        _assert_same(view, model)
    _assert_rebuilt(acks, rules, model)


def _assert_same(view: WithheldAcks, model: Model) -> None:
    shown = [each for first, count in view.unacked_runs(12, 0, ENTRIES) for each in range(first, first + count)]
    assert shown == [each for each in range(ENTRIES) if model.left(each)]
    for entry_id in shown:
        words = view.ack_set_of(12, entry_id)
        assert (FULL if words is None else mask_of_words(words)) == model.left(entry_id)


def _assert_rebuilt(acks: AckState, rules: PendingAckRules, model: Model) -> None:
    """Asserts that the records that the rules give for a shorter log make the same state."""
    again = rules_on(acks)
    for record in rules.records():
        replay(again, acks, record)
    _assert_same(WithheldAcks(acks, again), model)
