"""Decides whether a SEND that belongs to a transaction may be stored.

Source: Producer.publishTxnMessage, PersistentTopic.publishTxnMessage.
"""

from collections.abc import Awaitable

from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from pulsar_proto.errors import MalformedFrame, NotAllowed, PulsarError
from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records import payload as payloads

NOT_ENABLED = "Transactions are not enabled."


def txn_of(send: pb.CommandSend) -> TxnId | None:
    """Returns the transaction that a SEND names, or None."""
    if send.HasField("txnid_least_bits") or send.HasField("txnid_most_bits"):
        return TxnId(send.txnid_most_bits, send.txnid_least_bits)
    return None


def refusal_of(
    payload: bytes, txn_id: TxnId, transactions: TransactionBuffer | None
) -> PulsarError | Awaitable[None] | None:
    """Returns what `TransactionBuffer.admission` returns. A SEND whose metadata names another transaction, or none, is
    refused: the broker goes by the SEND while the message waits, but by the metadata when the message is read."""
    if transactions is None:
        return NotAllowed(NOT_ENABLED)
    try:
        stored_as = payloads.txn_of(payloads.parse_metadata(payload))
    except MalformedFrame as error:
        return NotAllowed(f"The metadata of a message of transaction {txn_id} cannot be understood: {error}")
    if stored_as != txn_id:
        return NotAllowed(f"The metadata of a message of transaction {txn_id} names transaction {stored_as}")
    return transactions.admission(txn_id)
