"""The judge of the bank notices every broken claim, and complains of nothing else."""

from collections.abc import Callable

import pytest

from compat_tests.bank.claims import Books, Place
from compat_tests.bank.notes import Output, Transfer, mint, parse

MINTED = mint("a", 2, 100)
MOVED = Transfer("m", ("mint-a/0",), (Output("a", 40), Output("b", 60)))
ASKED = {"mint-a", "m"}


class Reader:
    """Reads notes into the books, each at the next place of its account."""

    def __init__(self) -> None:
        self.books = Books(MINTED.worth)
        for number in range(len(MINTED.outputs)):
            self.read(MINTED, number)

    def read(self, transfer: Transfer, number: int, account: str = "") -> None:
        account = account or transfer.outputs[number].account
        place: Place = (1, len(self.books.log.get(account, ())), -1)
        self.books.read(account, place, transfer.text(number))

    def judge_quiet(self) -> None:
        self.books.judge_quiet(self.books.log)
        self.books.judge_census(self.books.unspent)


@pytest.fixture
def reader() -> Reader:
    return Reader()


def test_a_note_is_read_as_it_was_written() -> None:
    assert parse(MOVED.text(1)) == (MOVED, 1)
    assert parse(MINTED.text(0)) == (MINTED, 0)


def test_a_transfer_that_comes_little_by_little_is_right_in_every_cut(reader: Reader) -> None:
    books = reader.books
    books.end_cut({"mint-a"}, {"mint-a"})
    reader.read(MOVED, 1)
    books.end_cut(ASKED, {"mint-a"})
    assert books.on_the_way == {"m/0"}
    reader.read(MOVED, 0)
    books.end_cut(ASKED, ASKED)
    reader.judge_quiet()
    assert (books.complaints, books.sums) == ([], 3)
    assert books.unspent == {"mint-a/1", "m/0", "m/1"}
    assert books.unspent_in("b") == {"m/1"}


def test_an_input_may_come_one_cut_after_its_transfer(reader: Reader) -> None:
    later = Transfer("l", ("m/0",), (Output("b", 40),))
    reader.read(later, 0)
    reader.books.end_cut({*ASKED, "l"}, ())
    for number in (0, 1):
        reader.read(MOVED, number)
    reader.books.end_cut({*ASKED, "l"}, {*ASKED, "l"})
    reader.judge_quiet()
    assert (reader.books.complaints, reader.books.sums) == ([], 1)


def test_what_a_reader_gets_again_at_the_same_place_is_one_message(reader: Reader) -> None:
    for _ in range(2):
        reader.books.read("a", (1, 2, -1), MOVED.text(0))
    reader.read(MOVED, 1)
    reader.books.end_cut(ASKED, ASKED)
    assert (reader.books.complaints, len(reader.books.log["a"])) == ([], 3)


def twice(reader: Reader) -> None:
    for number in (0, 0, 1):
        reader.read(MOVED, number)
    reader.books.end_cut(ASKED, ASKED)


def elsewhere(reader: Reader) -> None:
    reader.read(MOVED, 0)
    reader.read(MOVED, 1, "a")


def uncommitted(reader: Reader) -> None:
    for number in (0, 1):
        reader.read(MOVED, number)
    reader.books.end_cut({"mint-a"}, ())


def half_committed(reader: Reader) -> None:
    reader.read(MOVED, 0)
    reader.books.end_cut(ASKED, {"m"})


def out_of_nothing(reader: Reader) -> None:
    reader.read(Transfer("m", ("x/0",), (Output("a", 1),)), 0)
    reader.books.end_cut(ASKED, ())
    reader.books.end_cut(ASKED, ())


def spent_twice(reader: Reader) -> None:
    for transfer in (Transfer("m", ("mint-a/0",), (Output("a", 100),)), Transfer("n", ("mint-a/0",), MINTED.outputs)):
        reader.read(transfer, 0)


def wrong_sum(reader: Reader) -> None:
    reader.read(Transfer("m", ("mint-a/0",), (Output("a", 101),)), 0)
    reader.books.end_cut(ASKED, ASKED)


def never_whole(reader: Reader) -> None:
    reader.read(MOVED, 0)
    reader.judge_quiet()


def behind_the_reader(reader: Reader) -> None:
    reader.books.read("a", (1, 0, -1), MOVED.text(0))


def otherwise_again(reader: Reader) -> None:
    reader.books.judge_quiet({"a": reader.books.log["a"][1:]})


def lost(reader: Reader) -> None:
    reader.books.judge_census({"mint-a/0"})


def given_again(reader: Reader) -> None:
    for number in (0, 1):
        reader.read(MOVED, number)
    reader.books.judge_census({*reader.books.unspent, "mint-a/0"})


@pytest.mark.parametrize(
    ("happens", "complaint"),
    [
        (twice, "(1) m/0 stands twice in a, again at (1, 3, -1)"),
        (elsewhere, "(1) m/1 stands in a"),
        (uncommitted, "(2) 1 transfers are seen that nobody committed: ['m']"),
        (half_committed, "(3) 1 committed transfers are not seen wholly: ['m']"),
        (out_of_nothing, "(4) 1 notes were spent that nobody could have got: ['x/0']"),
        (spent_twice, "(5) mint-a/0 was spent by m and by n"),
        (wrong_sum, "(6) there is 201 money, not 200"),
        (never_whole, "(7) 1 notes never came, though others of their transfers did: ['m/1']"),
        (behind_the_reader, "(8) a has 'm 0 mint-a/0 a=40,b=60' at (1, 0, -1) now, though the reader was further on"),
        (otherwise_again, "(8) a reads otherwise from the beginning: message 0 is ((1, 1, -1), "),
        (lost, "(9) no subscription gives 1 unspent notes: ['mint-a/1']"),
        (given_again, "(9) subscriptions give 1 spent notes again: ['mint-a/0']"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_claim_is_told(reader: Reader, happens: Callable[[Reader], None], complaint: str) -> None:
    happens(reader)
    assert len(reader.books.complaints) == 1
    assert reader.books.complaints[0].startswith(complaint)
