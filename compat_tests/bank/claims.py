"""What a reader of all accounts may see, and what it must see: observations come in, complaints come out.

A reader cannot look at eight topics at one moment, and the notes of a transfer do not become visible in all of them at
the same moment either. What a reader can do is a *cut*: it reads each account to its end, one after the other. The
claims about a cut:

1. A note stands in the account that its transfer names, and only once.
2. A note belongs to a transfer whose commit a client has asked for. So nothing is seen of transfers that were aborted,
   left to their time-out, or not yet ended.
3. All notes of a transfer whose commit had been answered before the cut began are in the cut, unless a transaction is
   still open that was open then: it may stand before them in an account, and holds back what stands behind it.
4. The inputs of a transfer of which a note is in a cut are all in the next cut, because a client got them before it
   began the transfer. All notes of a transfer tell the same transfer, whose outputs are worth what its inputs are.
5. No note is an input of two transfers that are seen.
6. The money is the same in every cut: all outputs of the transfers that are seen, less their inputs. A note that was
   announced by another one of its transfer, and is still to come, counts as money on its way. The sum cannot be formed
   while an input is still to come; then it is formed in the next cut.

When no client works and the coordinators have no transaction any more, it is quiet, and more must hold:

7. No money is on its way: each transfer is seen wholly or not at all, also if its client got an error as the answer.
8. A new reader sees the same notes at the same places in the same order as the reader that was there all the time.
9. The subscription gives exactly the notes that no transfer has spent: a spent one would be consumed twice, and one
   that is missing was lost to an acknowledgement of a transaction that never took effect.

There is no client, clock or server in here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from compat_tests.bank.notes import Transfer, parse

SHOWN = 4

Place = tuple[int, int, int]
"""Ledger, entry and index in a batch, which is -1 for a message that is no part of one."""


class Books:
    """All that the reader has seen so far. `complaints` grows with each claim that does not hold."""

    def __init__(self, money: int) -> None:
        """`money` is what was minted."""
        self.complaints: list[str] = []
        self.log: dict[str, list[tuple[Place, str]]] = {}
        """What each account had, in the order of reading."""
        self.transfers: dict[str, Transfer] = {}
        self.cuts = 0
        self.sums = 0
        """In how many cuts the sum could be formed."""
        self._money = money
        self._worth: dict[str, int] = {}
        """All notes of transfers that were seen, and what they are worth."""
        self._seen: set[str] = set()
        self._spent_by: dict[str, str] = {}
        self._sum = 0
        self._unread_inputs: set[str] = set()
        self._unread_before: set[str] = set()

    def complain(self, claim: int, text: str) -> None:
        self.complaints.append(f"({claim}) {text}")

    @property
    def unspent(self) -> set[str]:
        return self._worth.keys() - self._spent_by.keys()

    def unspent_in(self, account: str) -> set[str]:
        """Returns the notes of an account that no transfer has spent."""
        unspent = self.unspent
        return {
            note
            for each in self.transfers.values()
            for note, output in zip(each.notes, each.outputs, strict=True)
            if output.account == account and note in unspent
        }

    @property
    def on_the_way(self) -> set[str]:
        """The notes that others of their transfer have announced, and that were not seen themselves."""
        return self._worth.keys() - self._seen

    # --- what is read ------------------------------------------------------------------------------------------------

    def read(self, account: str, place: Place, text: str) -> None:
        """Takes the next message of an account. A reader that had to connect anew may be given again what it had; the
        same text at the same place is one message."""
        log = self.log.setdefault(account, [])
        if log and place <= log[-1][0]:
            if (place, text) not in log:
                self.complain(8, f"{account} has {text!r} at {place} now, though the reader was further on")
            return
        log.append((place, text))
        try:
            transfer, number = parse(text)
        except ValueError as error:
            self.complain(1, f"{account} {place}: not a note: {text!r}: {error}")
            return
        note = transfer.notes[number]
        if transfer.outputs[number].account != account:
            self.complain(1, f"{note} stands in {account}")
        if note in self._seen:
            self.complain(1, f"{note} stands twice in {account}, again at {place}")
        self._seen.add(note)
        known = self.transfers.setdefault(transfer.name, transfer)
        if known is transfer:
            self._enter(transfer)
        elif known != transfer:
            self.complain(4, f"{note} tells another transfer than the notes before: {transfer}, not {known}")

    def _enter(self, transfer: Transfer) -> None:
        """Notes a transfer of which the first note was read."""
        for note, output in zip(transfer.notes, transfer.outputs, strict=True):
            self._worth[note] = output.worth
            self._sum += output.worth
            if note in self._unread_inputs:
                self._unread_inputs.discard(note)
                self._sum -= output.worth
        for note in transfer.inputs:
            if (other := self._spent_by.get(note)) is not None:
                self.complain(5, f"{note} was spent by {other} and by {transfer.name}")
            self._spent_by[note] = transfer.name
            if note in self._worth:
                self._sum -= self._worth[note]
            else:
                self._unread_inputs.add(note)

    # --- what must hold ----------------------------------------------------------------------------------------------

    def end_cut(self, asked: Collection[str], due: Iterable[str]) -> None:
        """Judges a cut. `asked` are the transfers whose commit had been asked for when the cut ended, `due` those that
        nothing may have kept from being seen since the cut began."""
        self.cuts += 1
        strange = [name for name in self.transfers if name not in asked]
        if strange:
            self.complain(2, f"{len(strange)} transfers are seen that nobody committed: {strange[:SHOWN]}")
        missing = [name for name in due if not self._is_whole(name)]
        if missing:
            self.complain(3, f"{len(missing)} committed transfers are not seen wholly: {missing[:SHOWN]}")
        late = sorted(self._unread_inputs & self._unread_before)
        if late:
            self.complain(4, f"{len(late)} notes were spent that nobody could have got: {late[:SHOWN]}")
        self._unread_before = set(self._unread_inputs)
        if not self._unread_inputs:
            self.sums += 1
            if self._sum != self._money:
                self.complain(6, f"there is {self._sum} money, not {self._money}")

    def _is_whole(self, name: str) -> bool:
        transfer = self.transfers.get(name)
        return transfer is not None and self._seen.issuperset(transfer.notes)

    def judge_quiet(self, read_again: Mapping[str, Sequence[tuple[Place, str]]]) -> None:
        """Judges the bank when it is quiet, after a cut. `read_again` is what a new reader got of each account."""
        if half := sorted(self.on_the_way):
            self.complain(7, f"{len(half)} notes never came, though others of their transfers did: {half[:SHOWN]}")
        unbalanced = [each.name for each in self.transfers.values() if not self._is_balanced(each)]
        if unbalanced:
            self.complain(4, f"{len(unbalanced)} transfers made or lost money: {unbalanced[:SHOWN]}")
        for account, log in self.log.items():
            if difference := first_difference(log, read_again.get(account, ())):
                self.complain(8, f"{account} reads otherwise from the beginning: {difference}")

    def judge_census(self, given: Collection[str]) -> None:
        """Judges the names of the notes that the subscriptions gave when it was quiet."""
        unspent = self.unspent
        if again := sorted(set(given) - unspent):
            self.complain(9, f"subscriptions give {len(again)} spent notes again: {again[:SHOWN]}")
        if lost := sorted(unspent - set(given)):
            self.complain(9, f"no subscription gives {len(lost)} unspent notes: {lost[:SHOWN]}")

    def _is_balanced(self, transfer: Transfer) -> bool:
        if not transfer.inputs:
            return True
        return sum(self._worth.get(note, 0) for note in transfer.inputs) == transfer.worth


def first_difference(before: Sequence[tuple[Place, str]], now: Sequence[tuple[Place, str]]) -> str:
    """Returns where two readings of an account differ, or "" when they are the same."""
    for number, (old, new) in enumerate(zip(before, now, strict=False)):
        if old != new:
            return f"message {number} is {new}, and was {old}"
    return f"{len(now)} messages, and were {len(before)}" if len(before) != len(now) else ""
