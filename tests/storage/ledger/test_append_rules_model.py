"""The writer's state machine beside a slow twin, on random histories: only what has its quorum is confirmed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.ledger.append_group_rules import Send
from magnetar.storage.ledger.append_rules import AppendMachine
from magnetar.storage.ledger.quorum_rules import held_ids, write_set
from tests.rounds import rounds
from tests.storage.ledger.append_machine import EIO, group, machine_of


class Model:
    """A slow twin of the machine, which keeps for each entry who stored it."""

    def __init__(self, machine: AppendMachine, spare: list[str]) -> None:
        self.machine = machine
        self.spare = spare
        self.on_the_way: list[Send] = []
        self.sent_to: dict[int, str] = {}
        self.owed: dict[int, list[int]] = {}
        self.stored: dict[int, set[str]] = {}
        self.confirmed: list[int] = []

    def send(self, sends: list[Send]) -> None:
        for send in sends:
            self.sent_to[id(send)] = self.machine.ensemble[send.index]
            self.owed[id(send)] = list(send.ids)
        self.on_the_way += sends

    def confirm(self, write_quorum: int, ack_quorum: int) -> None:
        machine = self.machine
        size = len(machine.ensemble)
        while (append := machine.confirm_next()) is not None:
            for entry_id in append.ids:
                members = {machine.ensemble[i] for i in write_set(entry_id, size, write_quorum)}
                assert len(self.stored.get(entry_id, set()) & members) >= ack_quorum
            self.confirmed += append.ids
        assert self.confirmed == list(range(len(self.confirmed)))
        assert machine.last_add_confirmed == len(self.confirmed) - 1


@settings(max_examples=rounds(120), deadline=None)
@given(st.data())
def test_no_entry_is_confirmed_before_its_quorum_has_it_under_any_schedule(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5), label="E")
    write_quorum = data.draw(st.integers(1, size), label="Wq")
    ack_quorum = data.draw(st.integers(1, write_quorum), label="Aq")
    machine = machine_of("abcde"[:size], write_quorum, ack_quorum)
    model = Model(machine, list("vwxyz"))
    for _ in range(data.draw(st.integers(1, 40), label="steps")):
        step = data.draw(st.sampled_from(["push", "answer", "answer", "answer", "fail"]))
        if step == "push":
            model.send(machine.push(group(machine, data.draw(st.integers(1, 4)))))
        elif model.on_the_way:
            send = model.on_the_way[data.draw(st.integers(0, len(model.on_the_way) - 1))]
            count = data.draw(st.integers(1, len(model.owed[id(send)])))
            answer(model, send, count, failed=step == "fail" and bool(model.spare))
        if machine.must_change:
            replace_failed(model, data)
        model.confirm(write_quorum, ack_quorum)
    for send in list(model.on_the_way):
        answer(model, send, len(model.owed[id(send)]), failed=False)
    model.confirm(write_quorum, ack_quorum)
    assert machine.pending_entries == 0


def answer(model: Model, send: Send, count: int, *, failed: bool) -> None:
    """Lets the bookie answer for the next `count` entries that it has not answered."""
    owed = model.owed[id(send)]
    some, owed[:] = owed[:count], owed[count:]
    if not failed:
        for entry_id in some:
            model.stored.setdefault(entry_id, set()).add(model.sent_to[id(send)])
    model.machine.answered(send, some, EIO if failed else 0)
    if not owed:
        model.on_the_way.remove(send)


def replace_failed(model: Model, data: st.DataObject) -> None:
    machine = model.machine
    machine.begin_change()
    while failed := machine.take_failed():
        members = list(machine.ensemble)
        for index in failed:
            if model.spare:
                members[index] = model.spare.pop()
        model.send(machine.ensemble_changed(members))
    machine.resume()


@given(st.integers(0, 50), st.integers(1, 20))
def test_every_entry_of_a_group_is_sent_to_its_whole_write_set(first: int, count: int) -> None:
    machine = machine_of("abcd", 3, 2, lac=first - 1)
    sends = machine.push(group(machine, count))
    for entry_id in range(first, first + count):
        assert sorted(s.index for s in sends if entry_id in s.ids) == sorted(write_set(entry_id, 4, 3))
    for send in sends:
        assert list(send.ids) == list(held_ids(send.index, first, count, 4, 3))
