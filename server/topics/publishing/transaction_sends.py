"""Decides whether a SEND that belongs to a transaction may be stored.

Source: Producer.publishTxnMessage, PersistentTopic.publishTxnMessage.
"""

from collections.abc import Awaitable

from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from pulsar_proto.errors import MalformedFrame, NotAllowed, PulsarError
from pulsar_proto.ids import TxnId
from pulsar_proto.records import payload as payloads
from pulsar_proto.wire.send_run import PlainSend, Send

NOT_ENABLED = "Transactions are not enabled."


def txn_of(send: Send) -> TxnId | None:
    """Returns the transaction that a SEND names, or None."""
    if isinstance(send, PlainSend):
        return None
    if send.HasField("txnid_least_bits") or send.HasField("txnid_most_bits"):
        return TxnId(send.txnid_most_bits, send.txnid_least_bits)
    return None


def admission(
    payload: bytes, txn_id: TxnId, transactions: TransactionBuffer | None
) -> tuple[bytes, PulsarError | Awaitable[None] | None]:
    """Returns the payload that is to be stored, and what `TransactionBuffer.admission` returns.

    The broker goes by the SEND while the message waits, but by the metadata when the message is read. So a SEND whose
    metadata names another transaction is refused, and metadata that names none gets the id: Go's client leaves it out.
    At Apache's broker such messages are shown even if their transaction is aborted."""
    if transactions is None:
        return payload, NotAllowed(NOT_ENABLED)
    try:
        stored_as = payloads.txn_of(payloads.parse_metadata(payload))
        if stored_as is None:
            payload, stored_as = payloads.with_txn_id(payload, txn_id), txn_id
    except MalformedFrame as error:
        return payload, NotAllowed(f"The metadata of a message of transaction {txn_id} cannot be understood: {error}")
    if stored_as != txn_id:
        return payload, NotAllowed(f"The metadata of a message of transaction {txn_id} names transaction {stored_as}")
    return payload, transactions.admission(txn_id)
