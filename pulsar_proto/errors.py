"""Errors of the client protocol: each class of `PulsarError` stands for one ServerError code.

A handler raises such an error, and the connection answers with the error's `code` and text. Some clients look at the
text of an error; where they do, the place that raises it says what the text must contain.
"""

from collections.abc import Sequence
from typing import ClassVar

from pulsar_proto.pb import pulsar_api_pb2 as pb

_CLASS_OF_CODE: dict[int, "type[PulsarError]"] = {}


class MalformedFrame(Exception):
    """The peer broke the framing or the encoding. The peer gets no answer: its connection is closed. Apache's servers
    do the same (PulsarDecoder, BookieProtoEncoding).

    `frames` are the sound (command, rest) pairs that preceded the bad bytes in the same read. The caller handles these
    before it closes the connection.
    """

    def __init__(self, message: str, frames: Sequence[tuple[bytes, bytes | None]] = ()) -> None:
        super().__init__(message)
        self.frames = frames


class MalformedRecord(Exception):
    """A stored record (in the metadata store or a cursor's ledger) does not decode, or contradicts itself.

    Such a record is never repaired silently.
    """


class UnknownCommand(Exception):
    """A well-formed command of a type that this version does not know. A broker ignores the command; a client closes
    the connection."""

    def __init__(self, type_number: int) -> None:
        super().__init__(f"unknown command type {type_number}")
        self.type_number = type_number


class PulsarError(Exception):
    """An error that a client is told with a ServerError code.

    Each code has exactly one subclass; a second one for the same code raises TypeError when it is defined.
    """

    code: ClassVar[pb.ServerError.ValueType] = pb.UnknownError

    def __init_subclass__(cls, code: pb.ServerError.ValueType) -> None:
        if code in _CLASS_OF_CODE:
            raise TypeError(f"{cls.__name__} repeats code {code} of {_CLASS_OF_CODE[code].__name__}")
        cls.code = code
        _CLASS_OF_CODE[code] = cls

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def error_of_code(code: int, message: str) -> PulsarError:
    """Returns the error that a peer's answer stands for; a code of a later version becomes UnknownFault."""
    return _CLASS_OF_CODE.get(code, UnknownFault)(message)


class UnknownFault(PulsarError, code=pb.UnknownError):
    """An error that has no code of its own."""


class MetadataFault(PulsarError, code=pb.MetadataError):
    """The metadata store failed, or the request makes no sense to it."""


class PersistenceFault(PulsarError, code=pb.PersistenceError):
    """The broker failed to store something.

    As a SEND_ERROR this error makes a C++ client close its whole connection (ClientConnection::handleSendError), so a
    producer is better told with CLOSE_PRODUCER.
    """


class AuthenticationFault(PulsarError, code=pb.AuthenticationError):
    """The client did not prove who it is."""


class AuthorizationFault(PulsarError, code=pb.AuthorizationError):
    """The client's role may not do this."""


class ConsumerBusy(PulsarError, code=pb.ConsumerBusy):
    """The subscription cannot take another consumer of this kind."""


class ServiceNotReady(PulsarError, code=pb.ServiceNotReady):
    """The client should try again: the topic is being loaded, fenced or moved.

    In the answer to a lookup this error makes a C++ client close its connection.
    """


class QuotaExceededHold(PulsarError, code=pb.ProducerBlockedQuotaExceededError):
    """The topic's backlog quota is reached, and its policy is producer_request_hold."""


class QuotaExceeded(PulsarError, code=pb.ProducerBlockedQuotaExceededException):
    """The topic's backlog quota is reached, and its policy is producer_exception."""


class TopicNotFound(PulsarError, code=pb.TopicNotFound):
    """The topic, its tenant or its namespace does not exist and is not to be created."""


class SubscriptionNotFound(PulsarError, code=pb.SubscriptionNotFound):
    """The subscription does not exist and is not to be created."""


class ConsumerNotFound(PulsarError, code=pb.ConsumerNotFound):
    """The connection has no such consumer."""


class TooManyRequests(PulsarError, code=pb.TooManyRequests):
    """A limit is reached: of requests in progress, of one connection's watchers, or of bytes that wait to be stored."""


class TopicTerminated(PulsarError, code=pb.TopicTerminatedError):
    """The topic takes no more messages."""


class ProducerBusy(PulsarError, code=pb.ProducerBusy):
    """The producer's name is taken, or the topic has as many producers as it may.

    An empty or reserved subscription name is also answered with this error: BrokerServiceException.getClientErrorCode
    maps NamingException to this code, and clients' tests expect it.
    """


class InvalidTopicName(PulsarError, code=pb.InvalidTopicName):
    """The text is not the name of a topic, or the pattern is not a regular expression."""


class IncompatibleSchema(PulsarError, code=pb.IncompatibleSchema):
    """The client's schema is not compatible with the schemas of the topic."""


class ConsumerAssignFault(PulsarError, code=pb.ConsumerAssignError):
    """No hash range can be given to the consumer."""


class NotAllowed(PulsarError, code=pb.NotAllowedError):
    """The request is understood and refused."""


class ProducerFenced(PulsarError, code=pb.ProducerFenced):
    """Another producer has exclusive access to the topic."""


class TransactionCoordinatorNotFound(PulsarError, code=pb.TransactionCoordinatorNotFound):
    """This broker does not run the transaction coordinator now. Clients look it up again."""


class InvalidTxnStatus(PulsarError, code=pb.InvalidTxnStatus):
    """The transaction is in a state that does not allow the request."""


class TransactionConflict(PulsarError, code=pb.TransactionConflict):
    """A message that a transaction acknowledges was acknowledged before, or another transaction has done so."""


class TransactionNotFound(PulsarError, code=pb.TransactionNotFound):
    """The coordinator does not know the transaction, or the client may not touch it."""


# Codes that nobody here raises or catches by name. A peer's answer may carry one, and it must not change on its way
# (`error_of_code`): so each code gets a class too, named as in ServerError.
for _name, _code in pb.ServerError.items():
    if _code not in _CLASS_OF_CODE:
        type(_name, (PulsarError,), {}, code=_code)
