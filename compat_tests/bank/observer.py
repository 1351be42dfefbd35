"""Reads all accounts with Apache's C++ client, which knows nothing of transactions: cut after cut the whole time, and
everything once more when it is quiet."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import pulsar

from compat_tests.bank.claims import Books, Place
from compat_tests.bank.clients import Clients
from compat_tests.bank.notes import ACCOUNTS, Transfer, mint, parse
from compat_tests.bank.site import Site

NOTES_OF_AN_ACCOUNT = 6
WORTH_OF_A_NOTE = 1_000
MONEY = len(ACCOUNTS) * NOTES_OF_AN_ACCOUNT * WORTH_OF_A_NOTE
SUBSCRIPTION = "bank"

T = TypeVar("T")

OPERATION_SECONDS = 3
PAUSE_SECONDS = 0.05
"""Between two cuts, and before a reader asks again whose server is away."""
READ_SECONDS = 180.0
"""How long an account cannot be read at most, with all kills and starts."""
MESSAGE_MS = 5_000
CENSUS_MS = 20_000
"""How long the census waits for a note that must come."""


class Observer:
    """A reader of all accounts, in a thread of its own. Use it as a context manager; entering it mints the money."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.books = Books(MONEY)
        self._site = site
        self._minted = [mint(account, NOTES_OF_AN_ACCOUNT, WORTH_OF_A_NOTE) for account in ACCOUNTS]
        self._names = {each.name for each in self._minted}
        self._client = pulsar.Client(
            site.service_url,
            operation_timeout_seconds=OPERATION_SECONDS,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Info, str(folder / "observer.log")),
        )
        self._readers: dict[str, pulsar.Reader] = {}
        self._clients: Clients | None = None
        self._ended = threading.Event()
        self._cutting = threading.Lock()
        self._thread = threading.Thread(target=self._observe, daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        for transfer in self._minted:
            self._publish(transfer)
        self._readers = {account: self._open(account) for account in ACCOUNTS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(READ_SECONDS)
        with contextlib.suppress(pulsar.PulsarException):
            self._client.close()

    def begin(self, clients: Clients) -> None:
        """Lets the cuts begin. `clients` say which transfers they have committed."""
        self._clients = clients
        self._thread.start()

    def check(self) -> None:
        """Raises what has ended the thread, if anything has."""
        if self._failure is not None:
            raise self._failure

    # --- cuts --------------------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        try:
            while not self._ended.wait(PAUSE_SECONDS):
                with self._cutting:
                    self._cut()
        except Exception as error:
            self._failure = error

    def _cut(self) -> None:
        """Reads each account to its end, one after the other, and has the books judge what was seen."""
        assert self._clients is not None
        due = self._due(self._clients)
        for account, reader in self._readers.items():
            for place, text in self._to_the_end(account, reader):
                self.books.read(account, place, text)
        self.books.end_cut(self._clients.asked() | self._names, [*due, *self._names])

    def _due(self, clients: Clients) -> list[str]:
        """Returns the transfers that must be seen now. The coordinators, while they can be asked, tell the ends of
        transactions of which their clients know none."""
        known = clients.open()
        with contextlib.suppress(OSError):
            coordinators = self._site.coordinators()
            clients.have_ended(name for name, txn_id in known.items() if coordinators.has_ended(txn_id))
        return clients.due()

    def judge_quiet(self) -> None:
        """Has the books judge the bank. Called when no client works and no transaction is open any more. Afterwards no
        consumer of this observer is left."""
        with self._cutting:
            self._cut()
            self._cut()  # What was spent in the cut before must be there now.
            read_again = {}
            for account in ACCOUNTS:
                reader = self._open(account)
                read_again[account] = list(self._to_the_end(account, reader))
                reader.close()
            self.books.judge_quiet(read_again)
            if not self.books.complaints:  # Otherwise it would wait long for each note that is wrong.
                self.books.judge_census(self._census())

    # --- what the client does ----------------------------------------------------------------------------------------

    def _publish(self, transfer: Transfer) -> None:
        producer = self._client.create_producer(transfer.outputs[0].account)
        for number in range(len(transfer.outputs)):
            producer.send(transfer.text(number).encode())
        producer.close()

    def _open(self, account: str) -> pulsar.Reader:
        return _patiently(account, lambda: self._client.create_reader(account, pulsar.MessageId.earliest))

    def _to_the_end(self, account: str, reader: pulsar.Reader) -> Iterator[tuple[Place, str]]:
        """Yields the messages up to the end of the account: where it was at some moment after the call."""

        def next_message() -> pulsar.Message | None:
            return reader.read_next(MESSAGE_MS) if reader.has_message_available() else None

        while (message := _patiently(account, next_message)) is not None:
            found = message.message_id()
            yield (found.ledger_id(), found.entry_id(), found.batch_index()), message.data().decode()

    def _census(self) -> set[str]:
        """Returns the names of the notes that the subscriptions give, without acknowledging them."""
        given: set[str] = set()
        for account in ACCOUNTS:
            given |= self._given(account, self.books.unspent_in(account))
        return given

    def _given(self, account: str, expected: Collection[str]) -> set[str]:
        consumer = _patiently(
            account,
            lambda: self._client.subscribe(
                account, SUBSCRIPTION, pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
            ),
        )
        given: set[str] = set()
        with contextlib.suppress(pulsar.Timeout):
            while not given.issuperset(expected):
                transfer, number = parse(consumer.receive(CENSUS_MS).data().decode())
                given.add(transfer.notes[number])
        consumer.close()
        return given


def _patiently(account: str, call: Callable[[], T]) -> T:
    """Repeats a call whose server may be away. Raises AssertionError when it stays away."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        try:
            return call()
        except pulsar.PulsarException as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"{account} could not be read for {READ_SECONDS:g} s: {error!r}") from error
            time.sleep(PAUSE_SECONDS)
