"""The transactions of one coordinator, and what may happen to each of them. Does no I/O.

    OPEN ──▶ COMMITTING ──▶ COMMITTED
      └────▶ ABORTING ────▶ ABORTED

The step out of OPEN is the decision. When its record is durable, the transaction will end that way, whatever fails.
A transaction in its final state is forgotten at once, and its records are deleted from the log.

A change is asked for in two calls: `check_…` says whether it is allowed now, and `apply` makes it after its record
became durable. Only the step to a final state, `end`, is made before that. Records become durable in the order in which
they were appended, so a record that was allowed when it was appended may be one too many when it is durable: `apply`
then raises as `check_…` would have, and the caller deletes the record. Replay of the log applies the same records in
the same order, and so comes to the same state.

Source: MLTransactionMetadataStore, TxnMetaImpl.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from sys import intern
from typing import TypeVar

from magnetar.server.transactions.log_place import LogPlace
from pulsar_proto.errors import InvalidTxnStatus, NotAllowed, TooManyRequests, TransactionNotFound
from pulsar_proto.ids import TxnId, signed64
from pulsar_proto.records.transaction_log import Record, TxnStatus, counter_of

T = TypeVar("T")

PARTICIPANTS_MAX = 10_000
"""How many partitions and subscriptions together a transaction may touch. A request for more is refused. Apache's
broker has no limit."""
NAME_CHARACTERS_MAX = 65_536
"""How long the names of one request may be together."""

_NEW, _ADD_PARTITION, _UPDATE = Record.NEW, Record.ADD_PARTITION, Record.UPDATE
_OPEN = TxnStatus.OPEN


class Transaction:
    """One transaction that has not ended. Names are kept in the order in which they came, each once.

    A coordinator may have hundreds of thousands of transactions. Therefore a transaction consists of as few objects as
    possible: they take memory, and Python's garbage collector looks at each of them.
    """

    __slots__ = (
        "_places",
        "least",
        "most",
        "owner",
        "partitions",
        "started_ms",
        "status",
        "subscriptions",
        "timeout_ms",
    )

    def __init__(self, txn_id: TxnId, started_ms: int, timeout_ms: int, owner: str | None) -> None:
        self.most, self.least = txn_id
        self.status = TxnStatus.OPEN
        self.started_ms = started_ms
        self.timeout_ms = timeout_ms
        self.owner = owner
        """The role that began the transaction; None when everybody may change the transaction."""
        self.partitions: tuple[str, ...] = ()
        self.subscriptions: tuple[tuple[str, str], ...] = ()
        """(topic, subscription)"""
        self._places = array("q")
        """The numbers of `places`, one place after the other."""

    @property
    def txn_id(self) -> TxnId:
        return TxnId(self.most, self.least)

    @property
    def places(self) -> list[LogPlace]:
        """Where the transaction's records are, so that they can be deleted at its end."""
        numbers = iter(self._places)
        return list(map(LogPlace, numbers, numbers, numbers, numbers))

    def stored_at(self, place: LogPlace) -> None:
        """Notes the place of a further record."""
        self._places.extend(place)

    @property
    def due_ms(self) -> int:
        """When the transaction is aborted unless it has ended, in milliseconds of the wall clock."""
        return self.started_ms + self.timeout_ms

    @property
    def participants(self) -> int:
        return len(self.partitions) + len(self.subscriptions)


ENDS = (TxnStatus.COMMITTED, TxnStatus.ABORTED)
"""The final states."""
_STATUSES = tuple(TxnStatus)
"""The states by their numbers."""
_ALLOWED: tuple[Sequence[TxnStatus], ...] = (
    (TxnStatus.COMMITTING, TxnStatus.ABORTING),
    (TxnStatus.COMMITTED,),
    (),
    (TxnStatus.ABORTED,),
    (),
)
"""The states that may follow each state, by its number."""


class TransactionTable:
    """The transactions of one coordinator that have not ended."""

    def __init__(self, coordinator_id: int, active_max: int = 0) -> None:
        """`active_max` limits how many transactions may be alive at the same time; 0 sets no limit."""
        self.coordinator_id = coordinator_id
        self.counter = -1
        """The highest least bits of an id that may have been given out."""
        self._active_max = active_max
        self._alive: dict[int, Transaction] = {}
        """Least bits -> transaction, in ascending order: ids are given out and made durable in their order."""
        self._beginning: set[int] = set()
        """The least bits of the ids that were given out and whose transactions are not durable yet."""

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._alive.values())

    @property
    def low_watermark(self) -> int:
        """All transactions up to this count have ended. 0 when none is alive, as in Apache's coordinator
        (MLTransactionMetadataStore.getLowWaterMark)."""
        return next(iter(self._alive)) - 1 if self._alive else 0

    def is_given_out(self, least: int) -> bool:
        return 0 <= least <= self.counter

    def find(self, least: int) -> Transaction | None:
        """Returns a transaction that has not ended, or None."""
        return self._alive.get(least)

    def get(self, txn_id: TxnId) -> Transaction:
        """Returns a transaction that has not ended. Raises TransactionNotFound for one that has ended or never was."""
        found = self._alive.get(txn_id.least)
        if found is None:
            raise transaction_not_found(txn_id)
        return found

    # --- what is allowed now -----------------------------------------------------------------------------------------

    def next_id(self) -> TxnId:
        """Counts, and returns the id of a transaction that is to begin. Raises TooManyRequests at the limit."""
        active = len(self._alive) + len(self._beginning)
        if 0 < self._active_max <= active:
            raise TooManyRequests(
                f"Transaction coordinator {self.coordinator_id} has {active} active transactions, and "
                f"maxActiveTransactionsPerCoordinator is {self._active_max}"
            )
        self.counter += 1
        self._beginning.add(self.counter)
        return TxnId(self.coordinator_id, self.counter)

    def check_participants(self, txn_id: TxnId, names: Iterable[str], count: int) -> Transaction:
        """Returns the transaction to which participants may be added. Raises TransactionNotFound, InvalidTxnStatus when
        the transaction is not open, and NotAllowed for too many names or too long ones."""
        transaction = self.get(txn_id)
        if transaction.status is not TxnStatus.OPEN:
            raise _wrong_status(txn_id, TxnStatus.OPEN, transaction.status)
        if transaction.participants + count > PARTICIPANTS_MAX:
            raise NotAllowed(f"Transaction {txn_id} has more than {PARTICIPANTS_MAX} partitions and subscriptions")
        if sum(map(len, names)) > NAME_CHARACTERS_MAX:
            raise NotAllowed(f"The names of one request for a transaction exceed {NAME_CHARACTERS_MAX} characters")
        return transaction

    def check_end(self, txn_id: TxnId, *, commit: bool) -> Transaction:
        """Returns the transaction that is to end, which may be on its way to that end already. Raises
        TransactionNotFound, and InvalidTxnStatus when the other end was decided."""
        transaction = self.get(txn_id)
        decision = TxnStatus.COMMITTING if commit else TxnStatus.ABORTING
        if transaction.status not in (TxnStatus.OPEN, decision):
            raise _wrong_status(txn_id, TxnStatus.OPEN, transaction.status)
        return transaction

    def end(self, transaction: Transaction) -> list[LogPlace]:
        """Forgets a transaction that has ended everywhere, and returns the places of its records. They can be deleted
        when the record of its final state is durable."""
        del self._alive[transaction.least]
        return transaction.places

    # --- records that became durable ---------------------------------------------------------------------------------

    def apply(self, record: Record, place: LogPlace) -> Sequence[LogPlace]:
        """Makes the change of a durable record, and returns the places of the records that can be deleted now: all
        records of a transaction that has ended, or this one if it is about no transaction that is alive. Raises
        InvalidTxnStatus, which changes nothing, when the record does not fit the transaction's status; the caller then
        deletes the record."""
        least, operation = record.txnid_least_bits, record.metadata_op
        if record.max_local_txn_id > self.counter or least > self.counter:
            self.counter = max(self.counter, counter_of(record), least)
        transaction = self._alive.get(least)
        if operation == _NEW and transaction is None:
            transaction = self._alive[least] = _begun(self.coordinator_id, record)
            self._beginning.discard(least)
        elif transaction is None or operation == _NEW:
            return (place,)
        elif operation == _UPDATE:
            _change_status(transaction, _STATUSES[record.new_status])
            if transaction.status in ENDS:
                del self._alive[least]
                return [*transaction.places, place]
        else:
            _add_participants(transaction, record)
        transaction.stored_at(place)
        return ()


def _begun(coordinator_id: int, record: Record) -> Transaction:
    txn_id = TxnId(coordinator_id, record.txnid_least_bits)
    owner = record.owner if record.HasField("owner") else None
    return Transaction(txn_id, record.start_time, signed64(record.timeout_ms), owner)


def _add_participants(transaction: Transaction, record: Record) -> None:
    if transaction.status is not _OPEN:
        raise _wrong_status(transaction.txn_id, _OPEN, transaction.status)
    # Names are interned, because many transactions have the same ones.
    if record.metadata_op == _ADD_PARTITION:
        transaction.partitions = _joined(transaction.partitions, tuple(map(intern, record.partitions)))
    else:
        pairs = tuple((intern(each.topic), intern(each.subscription)) for each in record.subscriptions)
        transaction.subscriptions = _joined(transaction.subscriptions, pairs)


def _joined(before: tuple[T, ...], more: tuple[T, ...]) -> tuple[T, ...]:
    """Returns the items of both in their order, each once. Clients add one item at a time."""
    if len(more) == 1:
        return before if more[0] in before else before + more
    return tuple(dict.fromkeys(before + more))


def _change_status(transaction: Transaction, new: TxnStatus) -> None:
    if new is not transaction.status and new not in _ALLOWED[transaction.status]:
        raise _wrong_status(transaction.txn_id, new, transaction.status)
    transaction.status = new


def transaction_not_found(txn_id: TxnId) -> TransactionNotFound:
    """Returns the error with Apache's text, which is misspelt (CoordinatorException.TransactionNotFoundException)."""
    return TransactionNotFound(f"The transaction with this txdID `{txn_id}`not found ")


def _wrong_status(txn_id: TxnId, expected: TxnStatus, status: TxnStatus) -> InvalidTxnStatus:
    """Returns the error with Apache's text (CoordinatorException.InvalidTxnStatusException)."""
    return InvalidTxnStatus(f"Expect Txn `{txn_id}` to be in {expected.name} status but it is in {status.name} status")
