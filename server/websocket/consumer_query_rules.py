"""Reads the query parameters of consumers' and readers' sockets. This module does no I/O.

Sources: ConsumerHandler.getConsumerConfiguration, ReaderHandler.getReaderConfiguration, ConsumerBuilderImpl.
"""

from dataclasses import dataclass
from enum import Enum

from magnetar.server.websocket.json_message_rules import MessageFault, parse_message_id
from magnetar.server.websocket.query_rules import I64_MAX, Query, flag, one_of, shown, whole
from magnetar.server.websocket.websocket_path_rules import QueryFault
from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.ids import LATEST, unsigned64
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

WINDOW_MAX = 1_000
"""The largest receiverQueueSize; larger values are lowered to this one (ConsumerHandler.getConsumerConfiguration)."""

NAME_CHARACTERS_MAX = 1_024
"""The longest name of a consumer or reader."""

ACK_TIMEOUT_MS_LEAST = 1_000
"""The shortest ack timeout, in milliseconds (ConsumerBuilderImpl.ackTimeout)."""

NACK_DELAY_MS = 60_000
"""The default of negativeAckRedeliveryDelay (ConsumerConfigurationData)."""

SubType = pb.CommandSubscribe.SubType


class CryptoFailureAction(Enum):
    """The treatment of encrypted messages. The server has no keys, so it cannot decrypt them."""

    FAIL = "FAIL"
    """The message is not delivered and not acknowledged."""
    DISCARD = "DISCARD"
    """The message is acknowledged and not delivered."""
    CONSUME = "CONSUME"
    """The message is delivered as it is, with the data that the peer needs to decrypt it."""


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of a consumer's socket."""

    sub_type: SubType.ValueType
    is_durable: bool
    from_earliest: bool
    """Whether a new subscription begins at the earliest message."""
    window: int
    """In push mode, how many messages the peer may have without having answered them."""
    pulls: bool
    """Whether messages are sent only for permits that the peer gave (pull mode)."""
    name: str
    """The consumer's name; empty when the session is to generate a name."""
    priority_level: int
    ack_timeout_ms: int
    """After this time an unacknowledged message is delivered again; 0 means "never"."""
    nack_delay_ms: int
    max_redeliver_count: int
    """How often a message is delivered again before it goes to the dead letter topic; 0 means that there is no dead
    letter topic."""
    dead_letter_topic: TopicName | None
    """The dead letter topic that the query names; None means `{topic}-{subscription}-DLQ`."""
    crypto_failure_action: CryptoFailureAction

    @property
    def is_shared(self) -> bool:
        """Returns whether the subscription's type keeps no order, so that messages are acknowledged and delivered again
        one by one."""
        return self.sub_type in (SubType.Shared, SubType.Key_Shared)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The options of a reader's socket."""

    name: str
    """The reader's name; empty when the peer gave no name."""
    window: int
    start: pb.MessageIdData
    """The message after which the reader begins, or the id of the earliest or the latest position."""
    names_message: bool
    """Whether `start` is the id of a message, and not the earliest or the latest position."""
    crypto_failure_action: CryptoFailureAction


def read_consumer_options(query: Query) -> ConsumerOptions:
    """Reads the options of a consumer's socket. Raises QueryFault for a value that makes no sense."""
    sub_type = one_of(query, "subscriptionType", SubType.keys(), "Exclusive")
    ack_timeout_ms = whole(query, "ackTimeoutMillis", 0, most=I64_MAX)
    if 0 < ack_timeout_ms < ACK_TIMEOUT_MS_LEAST:
        raise QueryFault(f"Invalid ackTimeoutMillis {ack_timeout_ms}: expected 0 or at least {ACK_TIMEOUT_MS_LEAST}")
    return ConsumerOptions(
        sub_type=SubType.Value(sub_type),
        is_durable=one_of(query, "subscriptionMode", ("Durable", "NonDurable"), "Durable") == "Durable",
        from_earliest=one_of(query, "subscriptionInitialPosition", ("Latest", "Earliest"), "Latest") == "Earliest",
        window=_window(query),
        pulls=flag(query, "pullMode"),
        name=_name(query, "consumerName"),
        priority_level=whole(query, "priorityLevel", 0),
        ack_timeout_ms=ack_timeout_ms,
        nack_delay_ms=whole(query, "negativeAckRedeliveryDelay", NACK_DELAY_MS, most=I64_MAX),
        max_redeliver_count=whole(query, "maxRedeliverCount", 0, least=1) if "maxRedeliverCount" in query else 0,
        dead_letter_topic=_topic(query, "deadLetterTopic"),
        crypto_failure_action=_crypto_failure_action(query),
    )


def read_reader_options(query: Query) -> ReaderOptions:
    """Reads the options of a reader's socket. Raises QueryFault for a value that makes no sense."""
    text = query.get("messageId", "")
    start, names_message = latest(), False
    if text == "earliest":
        start = pb.MessageIdData(ledgerId=unsigned64(-1), entryId=unsigned64(-1))
    elif text and text != "latest":
        # A plus that was not encoded arrives as a space, which base64 does not have.
        start, names_message = _message_id(text.replace(" ", "+")), True
    return ReaderOptions(
        _name(query, "readerName"), _window(query), start, names_message, _crypto_failure_action(query)
    )


def latest() -> pb.MessageIdData:
    """Returns the message id that stands for the end of any topic."""
    return pb.MessageIdData(ledgerId=LATEST.ledger_id, entryId=LATEST.entry_id)


def _message_id(text: str) -> pb.MessageIdData:
    try:
        return parse_message_id(text)
    except MessageFault as fault:
        raise QueryFault(f"Invalid messageId {shown(text)}: {fault}") from None


def _window(query: Query) -> int:
    return max(1, min(whole(query, "receiverQueueSize", WINDOW_MAX), WINDOW_MAX))


def _name(query: Query, parameter: str) -> str:
    name = query.get(parameter, "")
    if len(name) > NAME_CHARACTERS_MAX:
        raise QueryFault(f"Invalid {parameter}: it has {len(name)} characters, at most {NAME_CHARACTERS_MAX} may be")
    if parameter in query and not name.strip():
        raise QueryFault(f"Invalid {parameter}: it is blank")
    return name


def _topic(query: Query, parameter: str) -> TopicName | None:
    text = query.get(parameter)
    if text is None:
        return None
    try:
        return TopicName.parse(text)
    except InvalidTopicName as error:
        raise QueryFault(f"Invalid {parameter} {shown(text)}: {error}") from None


def _crypto_failure_action(query: Query) -> CryptoFailureAction:
    return CryptoFailureAction[one_of(query, "cryptoFailureAction", CryptoFailureAction.__members__, "FAIL")]
