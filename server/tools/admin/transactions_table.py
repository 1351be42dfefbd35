"""The rows of `transactions`."""

from magnetar.server.tools.admin.admin_errors import CommandError
from magnetar.server.tools.admin.command_table import (
    FLAG,
    INTEGER,
    LONG,
    MAP,
    MILLIS,
    TOPIC_ARGUMENT,
    VALUE,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.parsing_rules import argument_value

_BASE = "/admin/v3/transactions"
_TOPIC = Option("-t --topic", "the topic", required=True)
_SUBSCRIPTION = Option("-s --subscription-name", "the subscription", required=True)
_SUB_NAME = Option("-s --sub-name", "the subscription", required=True)
_METADATA = Option("-m --metadata", "with the ledgers' metadata", FLAG)
_COORDINATOR = Option("-c --coordinator-id", "the coordinator's number", INTEGER)
_LOW_WATER_MARK = Option("-l --low-water-mark", "with low water marks", FLAG)
_MOST = Option("-m --most-sig-bits", "the coordinator's number in the transaction's id", INTEGER, required=True)
_LEAST = Option("-l --least-sig-bits", "the sequence in the transaction's id", LONG, required=True)
_ID = "{most-sig-bits}/{least-sig-bits}"


def _of_topic(path: str, *query: tuple[str, str]) -> "_TopicCall":
    return _TopicCall(Call("GET", f"{_BASE}/{path}", query))


class _TopicCall:
    """Shows what a call about the topic of an option answers; `{topic.below_namespace}` in its path is the topic."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __call__(self, invocation: Invocation) -> None:
        invocation.values["topic"] = argument_value(TOPIC_ARGUMENT, invocation["topic"])
        invocation.show(invocation.get(self._call.path, self._call.query))


def _scale(invocation: Invocation) -> None:
    if invocation["replicas"] <= 0:
        raise CommandError("Number of transaction coordinators must be more than 0")
    invocation.call(Call("POST", f"{_BASE}/transactionCoordinator/replicas", body="replicas"))


def _list(invocation: Invocation) -> None:
    coordinators = invocation.get(f"{_BASE}/coordinators") or ()
    invocation.show({str(each["id"]): each["brokerServiceUrl"] for each in coordinators})


COMMANDS = (
    Command(
        "coordinator-internal-stats",
        "Shows the ledgers of a coordinator.",
        Call("GET", f"{_BASE}/coordinatorInternalStats/{{coordinator-id}}", (("metadata", "{metadata}"),)),
        (),
        (_COORDINATOR._replace(required=True), _METADATA),
        VALUE,
        examples=("-c 0",),
    ),
    Command(
        "pending-ack-internal-stats",
        "Shows the ledgers of a subscription's pending acknowledgements.",
        _of_topic("pendingAckInternalStats/{topic.below_namespace}/{subscription-name}", ("metadata", "{metadata}")),
        (),
        (_TOPIC, _SUBSCRIPTION, _METADATA),
        VALUE,
        examples=("-t my-topic -s my-subscription",),
    ),
    Command(
        "buffer-snapshot-internal-stats",
        "Shows the ledgers of the snapshots of a topic's buffer.",
        _of_topic("transactionBufferInternalStats/{topic.below_namespace}", ("metadata", "{metadata}")),
        (),
        (_TOPIC, _METADATA),
        VALUE,
        examples=("-t my-topic",),
    ),
    Command(
        "coordinator-stats",
        "Shows the state of coordinators.",
        Call("GET", f"{_BASE}/coordinatorStats", (("coordinatorId", "{coordinator-id}"),)),
        (),
        (_COORDINATOR,),
        VALUE,
        examples=("", "-c 0"),
    ),
    Command(
        "transaction-buffer-stats",
        "Shows the state of a topic's buffer.",
        _of_topic(
            "transactionBufferStats/{topic.below_namespace}",
            ("lowWaterMarks", "{low-water-mark}"),
            ("segmentStats", "{segment-stats}"),
        ),
        (),
        (_TOPIC, _LOW_WATER_MARK, Option("-s --segment-stats", "with segments", FLAG)),
        VALUE,
        examples=("-t my-topic",),
    ),
    Command(
        "pending-ack-stats",
        "Shows the state of a subscription's pending acknowledgements.",
        _of_topic("pendingAckStats/{topic.below_namespace}/{sub-name}", ("lowWaterMarks", "{low-water-mark}")),
        (),
        (_TOPIC, _SUB_NAME, _LOW_WATER_MARK),
        VALUE,
        examples=("-t my-topic -s my-subscription",),
    ),
    Command(
        "transaction-in-buffer-stats",
        "Shows a transaction in a topic's buffer.",
        _of_topic(f"transactionInBufferStats/{{topic.below_namespace}}/{_ID}"),
        (),
        (_MOST, _LEAST, _TOPIC),
        VALUE,
        examples=("-m 0 -l 7 -t my-topic",),
    ),
    Command(
        "transaction-in-pending-ack-stats",
        "Shows a transaction in a subscription's pending acknowledgements.",
        _of_topic(f"transactionInPendingAckStats/{{topic.below_namespace}}/{{sub-name}}/{_ID}"),
        (),
        (_MOST, _LEAST, _TOPIC, _SUB_NAME),
        VALUE,
        examples=("-m 0 -l 7 -t my-topic -s my-subscription",),
    ),
    Command(
        "transaction-metadata",
        "Shows a transaction.",
        Call("GET", f"{_BASE}/transactionMetadata/{_ID}"),
        (),
        (_MOST, _LEAST),
        VALUE,
        examples=("-m 0 -l 7",),
    ),
    Command(
        "slow-transactions",
        "Shows transactions that are open for longer than a time.",
        Call("GET", f"{_BASE}/slowTransactions/{{time}}", (("coordinatorId", "{coordinator-id}"),)),
        (),
        (_COORDINATOR, Option("-t --time", "as 1s, 10s, 1m, 5h", MILLIS, required=True)),
        VALUE,
        examples=("-t 5m",),
    ),
    Command(
        "scale-transactionCoordinators",
        "Sets the number of coordinators.",
        _scale,
        (),
        (Option("-r --replicas", "how many", INTEGER, default=0),),
        examples=("-r 16",),
    ),
    Command(
        "position-stats-in-pending-ack",
        "Asks for the state of one message in a subscription's pending acknowledgements.",
        _of_topic(
            "positionStatsInPendingAck/{topic.below_namespace}/{subscription-name}/{ledger-id}/{entry-id}",
            ("batchIndex", "{batch-index}"),
        ),
        (),
        (
            _TOPIC,
            _SUBSCRIPTION,
            Option("-l --ledger-id", "the message's ledger", LONG, required=True),
            Option("-e --entry-id", "the message's entry", LONG, required=True),
            Option("-b --batch-index", "its place in the batch", INTEGER),
        ),
        VALUE,
        examples=("-t my-topic -s my-subscription -l 3 -e 7",),
    ),
    Command("coordinators-list", "Lists the coordinators.", _list, output=MAP, examples=("",)),
    Command(
        "abort-transaction",
        "Aborts a transaction.",
        Call("POST", f"{_BASE}/abortTransaction/{_ID}"),
        (),
        (_MOST._replace(kind=LONG), _LEAST),
        examples=("-m 0 -l 7",),
    ),
)
