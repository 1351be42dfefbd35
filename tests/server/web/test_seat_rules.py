"""Which connections keep their seats on the web port, compared with a model that remembers everything in one list."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.web.seat_rules import Seats

SEATS = 4


class Seated(NamedTuple):
    connection: int
    address: str
    state: str


class Model:
    """All connections, in the order in which they came to their present states."""

    def __init__(self) -> None:
        self.seated: list[Seated] = []

    def has_idle(self) -> bool:
        return any(one.state != "busy" for one in self.seated)

    def change(self, connection: int, state: str | None) -> None:
        for one in [one for one in self.seated if one.connection == connection]:
            self.seated.remove(one)
            if state is not None:
                self.seated.append(one._replace(state=state))


STEPS = st.lists(st.tuples(st.sampled_from(["enter"] * 3 + ["begins", "ends", "leave"]), st.integers(0, 20)))


@given(STEPS, st.lists(st.sampled_from("aab"), min_size=21, max_size=21))
def test_bounds_and_what_is_known_of_each_seat_hold_in_any_history(
    steps: list[tuple[str, int]], addresses: list[str]
) -> None:
    seats: Seats[int] = Seats(SEATS)
    model = Model()
    entered: set[int] = set()
    for step, connection in steps:
        known = {one.connection: one.state for one in model.seated}
        if step == "enter" and connection not in entered:
            entered.add(connection)
            evicted = seats.enter(connection, addresses[connection])
            if len(known) < SEATS:
                assert evicted is None
            elif not model.has_idle():
                assert evicted == connection
                continue
            else:
                assert evicted is not None
                assert known[evicted] != "busy"
                assert not (known[evicted] == "answered" and silent_beside(model, evicted))
                assert holds_most(model, evicted)
                model.change(evicted, None)
            model.seated.append(Seated(connection, addresses[connection], "silent"))
        elif step == "begins" and known.get(connection, "busy") != "busy":
            seats.begins(connection)
            model.change(connection, "busy")
        elif step == "ends" and known.get(connection) == "busy":
            seats.ends(connection)
            model.change(connection, "answered")
        elif step == "leave":
            seats.leave(connection)
            model.change(connection, None)
        assert len(seats) == len(model.seated) <= SEATS


def silent_beside(model: Model, evicted: int) -> bool:
    """Whether the address of the evicted connection has a connection that never had a call answered."""
    address = next(one.address for one in model.seated if one.connection == evicted)
    return any(one.address == address and one.state == "silent" for one in model.seated)


def holds_most(model: Model, evicted: int) -> bool:
    """Whether no other address with an idle connection has more connections than that of the evicted one."""
    counts = {one.address: sum(other.address == one.address for other in model.seated) for one in model.seated}
    idle = {one.address for one in model.seated if one.state != "busy"}
    address = next(one.address for one in model.seated if one.connection == evicted)
    return counts[address] == max(counts[other] for other in idle)


def test_among_equals_the_longest_idle_goes_first() -> None:
    seats: Seats[str] = Seats(3)
    for name in ("first", "second", "third"):
        seats.enter(name, "a")
        seats.begins(name)
    assert seats.enter("fourth", "a") == "fourth"
    for name in ("second", "first", "third"):
        seats.ends(name)
    assert seats.enter("fifth", "b") == "second"
    assert seats.enter("sixth", "b") == "first"


def test_an_address_with_few_connections_is_spared() -> None:
    seats: Seats[str] = Seats(4)
    seats.enter("old", "few")
    for number in range(3):
        seats.enter(f"flood {number}", "many")
    assert [seats.enter(f"flood {number}", "many") for number in range(3, 6)] == ["flood 0", "flood 1", "flood 2"]
