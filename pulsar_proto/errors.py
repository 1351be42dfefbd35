"""Errors of the client protocol: each class of `PulsarError` stands for one ServerError code.

A handler raises one of them, and the connection answers with `.code` and the text. What the text must contain, where
clients look at it, is said by the one who raises.
"""

from collections.abc import Sequence
from typing import ClassVar

from pulsar_proto.pb import pulsar_api_pb2 as pb

_CLASS_OF_CODE: dict[int, "type[PulsarError]"] = {}


class MalformedFrame(Exception):
    """The peer broke the framing or the encoding: close its connection, there is no answer (facts 1.3).

    `frames` are the sound (command, rest) pairs that preceded it in the same read; handle them before closing.
    """

    def __init__(self, message: str, frames: Sequence[tuple[bytes, bytes | None]] = ()) -> None:
        super().__init__(message)
        self.frames = frames


class MalformedRecord(Exception):
    """A stored record (metadata, cursor entry) does not decode, or contradicts itself. Never repaired silently."""


class UnknownCommand(Exception):
    """A well-formed command of a type that this version does not know. A broker ignores it; a client closes."""

    def __init__(self, type_number: int) -> None:
        super().__init__(f"unknown command type {type_number}")
        self.type_number = type_number


class PulsarError(Exception):
    """What the client is told with a ServerError code. Each subclass has a code of its own; none can repeat one."""

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
    """The error that a peer's answer stands for; a code of a later version becomes UnknownFault."""
    return _CLASS_OF_CODE.get(code, UnknownFault)(message)


class UnknownFault(PulsarError, code=pb.UnknownError):
    """Anything unforeseen."""


class MetadataFault(PulsarError, code=pb.MetadataError):
    """The metadata store failed, or the request makes no sense to it."""


class PersistenceFault(PulsarError, code=pb.PersistenceError):
    """Storing failed. As SEND_ERROR it closes a C++ client's whole connection: prefer CLOSE_PRODUCER (facts 1.6)."""


class AuthenticationFault(PulsarError, code=pb.AuthenticationError):
    """The client did not prove who it is."""


class AuthorizationFault(PulsarError, code=pb.AuthorizationError):
    """The client's role may not do this."""


class ConsumerBusy(PulsarError, code=pb.ConsumerBusy):
    """The subscription cannot take another consumer of this kind."""


class ServiceNotReady(PulsarError, code=pb.ServiceNotReady):
    """Try again: the topic is being loaded, fenced or moved. In lookup answers it closes a C++ client's connection."""


class QuotaExceededHold(PulsarError, code=pb.ProducerBlockedQuotaExceededError):
    """Backlog quota reached, policy producer_request_hold."""


class QuotaExceeded(PulsarError, code=pb.ProducerBlockedQuotaExceededException):
    """Backlog quota reached, policy producer_exception."""


class ChecksumFault(PulsarError, code=pb.ChecksumError):
    """The payload does not match its CRC-32C."""


class UnsupportedVersion(PulsarError, code=pb.UnsupportedVersionError):
    """The client's protocol version cannot do this."""


class TopicNotFound(PulsarError, code=pb.TopicNotFound):
    """The topic, its tenant or its namespace does not exist and is not to be created."""


class SubscriptionNotFound(PulsarError, code=pb.SubscriptionNotFound):
    """The subscription does not exist and is not to be created."""


class ConsumerNotFound(PulsarError, code=pb.ConsumerNotFound):
    """The connection has no such consumer."""


class TooManyRequests(PulsarError, code=pb.TooManyRequests):
    """A named limit of requests in progress is reached."""


class TopicTerminated(PulsarError, code=pb.TopicTerminatedError):
    """The topic takes no more messages."""


class ProducerBusy(PulsarError, code=pb.ProducerBusy):
    """The producer's name is taken, or the topic has its limit. Also what a bad subscription name gives (facts 1.5)."""


class InvalidTopicName(PulsarError, code=pb.InvalidTopicName):
    """The text is not the name of a topic, or the pattern not a regular expression."""


class IncompatibleSchema(PulsarError, code=pb.IncompatibleSchema):
    """The topic's schemas refuse this one."""


class ConsumerAssignFault(PulsarError, code=pb.ConsumerAssignError):
    """No hash range can be given to the consumer."""


class CoordinatorNotFound(PulsarError, code=pb.TransactionCoordinatorNotFound):
    """This broker does not run that transaction coordinator."""


class InvalidTxnStatus(PulsarError, code=pb.InvalidTxnStatus):
    """The transaction's state forbids the step."""


class NotAllowed(PulsarError, code=pb.NotAllowedError):
    """The request is understood and refused."""


class TransactionConflict(PulsarError, code=pb.TransactionConflict):
    """Another transaction acknowledged the message."""


class TransactionNotFound(PulsarError, code=pb.TransactionNotFound):
    """No such transaction."""


class ProducerFenced(PulsarError, code=pb.ProducerFenced):
    """Another producer has exclusive access."""
