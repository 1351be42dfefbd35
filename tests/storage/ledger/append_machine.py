"""The writer's state machine for tests that drive it by hand."""

from collections.abc import Sequence

from magnetar.storage.ledger.append_group_rules import Append, Send
from magnetar.storage.ledger.append_rules import AppendMachine
from pulsar_proto.wire.bookie_wire import BookieRc

EIO = int(BookieRc.EIO)


def unused(append: Append) -> None:
    raise AssertionError("the machine calls nobody")


def unexpected(send: Send, ids: Sequence[int], rc: int) -> None:
    raise AssertionError("the machine calls nobody")


def machine_of(
    bookies: str, write_quorum: int, ack_quorum: int, *, lac: int = -1, lagging_bytes_max: int = 10**9
) -> AppendMachine:
    """Returns a machine on an ensemble whose bookies are named by letters: "abc"."""
    return AppendMachine(
        tuple(bookies),
        write_quorum,
        ack_quorum,
        sink=unexpected,
        lagging_bytes_max=lagging_bytes_max,
        last_add_confirmed=lac,
    )


def group(machine: AppendMachine, count: int) -> Append:
    """Pushes the next `count` entries, of 10 bytes each."""
    first = machine.last_add_pushed + 1
    return Append(first, [b"entry %d" % (first + i) for i in range(count)], machine.length + 10 * count, unused)


def confirmed(machine: AppendMachine) -> list[int]:
    """Returns the first ids of the groups that are confirmed now."""
    found = []
    while (append := machine.confirm_next()) is not None:
        found.append(append.first_entry_id)
    return found


def change(machine: AppendMachine, members: str) -> list[Send]:
    machine.begin_change()
    machine.take_failed()
    return machine.ensemble_changed(tuple(members))
