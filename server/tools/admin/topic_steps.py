"""The commands of `topics` that take several calls or show their answers in their own way."""

from typing import Any

from magnetar.server.tools.admin.admin_errors import CommandError, UsageError
from magnetar.server.tools.admin.body_rules import metadata
from magnetar.server.tools.admin.command_table import Call
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.name_rules import Topic, parse_topic
from magnetar.server.tools.admin.value_rules import MessageId
from magnetar.server.tools.connection.connection_errors import AdminCallError

TOPIC_LIST_BYTES_MAX = 64 << 20
SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
_EXCEPTIONS = {
    401: "NotAuthorizedException",
    403: "NotAuthorizedException",
    404: "NotFoundException",
    405: "NotAllowedException",
    409: "ConflictException",
    412: "PreconditionFailedException",
    500: "ServerSideErrorException",
    503: "ServerSideErrorException",
}


def list_topics(invocation: Invocation) -> None:
    """Lists the topics of both domains, or of the one that was asked for."""
    domain = invocation.values.get("topic-domain")
    domains = [domain.replace("_", "-")] if domain else ["persistent", "non-persistent"]
    topics = []
    for each in domains:
        topics += invocation.get(
            f"{{namespace.root}}/{each}/{{namespace.text}}",
            (("bundle", "{bundle}"), ("includeSystemTopic", "{include-system-topic}")),
        )
    invocation.show(list(dict.fromkeys(topics)))


def list_partitioned_topics(invocation: Invocation) -> None:
    topics = []
    for domain in ("persistent", "non-persistent"):
        path = f"{{namespace.root}}/{domain}/{{namespace.text}}/partitioned"
        topics += invocation.get(path, (("includeSystemTopic", "{include-system-topic}"),))
    invocation.show(list(dict.fromkeys(topics)))


def lookup(invocation: Invocation) -> None:
    invocation.show(broker_of(invocation, invocation.topic))


def broker_of(invocation: Invocation, topic: Topic) -> str:
    """Returns the binary address of the broker that has the topic, that with TLS when this tool itself uses TLS."""
    found = invocation.http.get(f"/lookup/v2/{_kind(topic)}/{topic.domain}/{topic.below_namespace}").json()
    tls = found.get("brokerUrlTls") if invocation.http.uses_tls else None
    return str(tls or found.get("brokerUrl") or found.get("nativeUrl"))


def _kind(topic: Topic) -> str:
    return "destination" if topic.namespace.cluster else "topic"


def partitioned_lookup(invocation: Invocation) -> None:
    topic = invocation.topic
    partitions = invocation.get("{topic}/partitions")["partitions"]
    if partitions <= 0:
        raise CommandError(f"Topic {topic.text} is not a partitioned topic")
    brokers = {each.text: broker_of(invocation, each) for each in map(topic.partition, range(partitions))}
    if invocation["sort-by-broker"]:
        by_broker: dict[str, list[str]] = {}
        for name, broker in brokers.items():
            by_broker.setdefault(broker, []).append(name)
        invocation.show(by_broker)
    else:
        invocation.show(brokers)


def bundle_range(invocation: Invocation) -> None:
    topic = invocation.topic
    invocation.show(invocation.get(f"/lookup/v2/{_kind(topic)}/{topic.domain}/{topic.below_namespace}/bundle"))


def delete_topics(invocation: Invocation) -> None:
    """Deletes a topic, the topics of a file, or those that match a regular expression. As in Java's tool, a topic that
    cannot be deleted is told of on stdout and does not change the exit code."""
    text = invocation["topic"]
    if invocation["from-file"] and invocation["r"]:
        raise UsageError("Could not apply regex when read topics from file.")
    if invocation["from-file"]:
        for name in _names_of_file(text):
            _delete(invocation, name, name)
        return
    topic = _topic(text)
    if not invocation["r"]:
        _delete(invocation, topic.text, text)
        return
    import re

    try:
        pattern = re.compile(topic.text)
    except re.error as error:
        raise UsageError(f"'{topic.text}' is no regular expression: {error}") from None
    for domain in ("persistent", "non-persistent"):
        path = f"{topic.namespace.root}/{domain}/{topic.namespace.text}"
        for name in invocation.http.get(path, [("includeSystemTopic", "false")]).json():
            if pattern.fullmatch(name):
                _delete(invocation, name, name)


def _names_of_file(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(TOPIC_LIST_BYTES_MAX).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}") from None


def _topic(text: str) -> Topic:
    try:
        return parse_topic(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _delete(invocation: Invocation, name: str, shown: str) -> None:
    query = [("force", "true" if invocation["force"] else "false"), ("deleteSchema", "true")]
    try:
        invocation.http.delete(parse_topic(name).path, query)
    except AdminCallError as error:
        invocation.say(f"Failed to delete topic: {shown}. Exception: {exception_text(error)}")
    except ValueError as error:
        invocation.say(f"Failed to delete topic: {shown}. Exception: {error}")


def exception_text(error: AdminCallError) -> str:
    """Returns what the toString of Java's exception for the same answer gives."""
    name = _EXCEPTIONS.get(error.status or 0)
    inner = f"${name}" if name else ""
    return f"org.apache.pulsar.client.admin.PulsarAdminException{inner}: {error.reason}"


def show_internal_info(invocation: Invocation) -> None:
    """Shows metadata by Gson's printer, which differs from Jackson's."""
    from magnetar.server.tools.admin.jackson_rules import gson

    info = invocation.get("{topic}/internal-info")
    if invocation.form != TEXT_FORMAT:
        invocation.show(info)
    elif info is None:
        invocation.say("Did not find any internal metadata info")
    else:
        invocation.say(gson(info, "  "))


def create_topic(invocation: Invocation) -> None:
    """Creates a topic as pulsar-admin does, or with the number of partitions that pulsarctl takes behind the name."""
    if _partition_count(invocation) > 0:
        invocation.values["partitions"] = _partition_count(invocation)
        create_partitioned_topic(invocation)
    else:
        invocation.call(Call("PUT", "{topic}", body=metadata))


def update_topic(invocation: Invocation) -> None:
    """Gives a topic the number of partitions that pulsarctl takes behind the name."""
    invocation.values["partitions"] = _partition_count(invocation)
    query = (("updateLocalTopicOnly", "false"), ("force", "false"))
    invocation.call(Call("POST", "{topic}/partitions", query, "partitions"))


def _partition_count(invocation: Invocation) -> int:
    text = str(invocation["partitions"] or 0)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"Invalid value for parameter 'partitions': '{text}' is not a whole number")
    return int(text)


def create_partitioned_topic(invocation: Invocation) -> None:
    partitions, properties = invocation["partitions"], invocation["metadata"]
    query = [("createLocalTopicOnly", "false")]
    create_partitions(invocation, invocation.topic, partitions, properties, query)


def create_partitions(
    invocation: Invocation,
    topic: Topic,
    partitions: int,
    properties: dict[str, str] | None,
    query: list[tuple[str, str]],
) -> None:
    """Creates a partitioned topic. Properties go in a body of another media type, as TopicsImpl sends them."""
    path = topic.path + "/partitions"
    if not properties:
        invocation.http.put(path, query, partitions)
        return
    body = {"partitions": partitions, "deleted": False, "properties": properties}
    invocation.http.call("PUT", path, query, body, "application/vnd.partitioned-topic-metadata+json")


def create_shadow_topic(invocation: Invocation) -> None:
    """A shadow topic has as many partitions as its source, whose name is one of its properties."""
    shadow, source = invocation.topic, _topic(invocation["source"])
    for topic, role in ((shadow, "Shadow"), (source, "Source")):
        if topic.domain != "persistent":
            raise UsageError(f"{role} topic must be persistent")
    partitions = invocation.http.get(source.path + "/partitions").json()["partitions"]
    properties = {**(invocation["properties"] or {}), SHADOW_SOURCE: source.text}
    if partitions:
        create_partitions(invocation, shadow, partitions, properties, [("createLocalTopicOnly", "false")])
    else:
        invocation.http.put(shadow.path, (), properties)


def show_shadow_source(invocation: Invocation) -> None:
    properties = invocation.get("{topic}/properties") or {}
    invocation.show(properties.get(SHADOW_SOURCE))


def message_id_text(answer: dict[str, Any] | None) -> str:
    """Returns MessageIdImpl's toString."""
    if answer is None:
        return "null"
    return f"{answer['ledgerId']}:{answer['entryId']}:{answer.get('partitionIndex', -1)}"


def terminate(invocation: Invocation) -> None:
    answer = invocation.call(Call("POST", "{topic}/terminate"))
    invocation.say(f"Topic successfully terminated at {message_id_text(answer.json())}")


def partitioned_terminate(invocation: Invocation) -> None:
    answer = invocation.call(Call("POST", "{topic}/terminate/partitions")).json() or {}
    for partition in sorted(answer, key=int):
        name = invocation.topic.partition(int(partition)).text
        invocation.say(f"Topic {name} successfully terminated at {message_id_text(answer[partition])}")


def offload(invocation: Invocation) -> None:
    """Asks to offload the ledgers before the newest ones that hold as much as stays in BookKeeper."""
    stats = invocation.get("{topic}/internalStats", (("metadata", "false"),))
    ledgers = [(each["ledgerId"], each.get("size", 0)) for each in stats.get("ledgers", ())]
    if not ledgers:
        raise CommandError("Topic doesn't have any data")
    ledgers[-1] = (ledgers[-1][0], stats.get("currentLedgerSize", 0))
    first_kept = first_ledger_within(ledgers, invocation["size-threshold"])
    if first_kept is None:
        invocation.say("Nothing to offload")
        return
    before = {"ledgerId": first_kept, "entryId": 0, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}
    invocation.http.put(invocation.topic.path + "/offload", (), before)
    shown = message_id_text(before)
    invocation.say(f"Offload triggered for {invocation.topic.text} for messages before {shown}")


def first_ledger_within(ledgers: list[tuple[int, int]], threshold: int) -> int | None:
    """Returns the oldest of the newest ledgers that hold no more than `threshold` bytes together, or None when all of
    them do. It is the newest ledger when that alone holds more. `ledgers` are pairs of id and size."""
    held = 0
    previous = ledgers[-1][0]
    for ledger, size in reversed(ledgers):
        held += size
        if held > threshold:
            return previous
        previous = ledger
    return None


def show_offload_status(invocation: Invocation) -> None:
    _show_status(invocation, "offload", "Offload", "Error offloading")


def show_compaction_status(invocation: Invocation) -> None:
    _show_status(invocation, "compaction", "Compaction", "Error compacting")


def _show_status(invocation: Invocation, path: str, what: str, failed: str) -> None:
    """Shows the state of a long process, with --wait-complete once it has ended."""
    import time

    status = invocation.get("{topic}/" + path)
    while invocation["wait-complete"] and status["status"] == "RUNNING":
        time.sleep(1)
        status = invocation.get("{topic}/" + path)
    told = {
        "NOT_RUN": f"{what} has not been run for {invocation.topic.text} since broker startup",
        "RUNNING": f"{what} is currently running",
        "SUCCESS": f"{what} was a success",
        "ERROR": f"Error in {what.lower()}",
    }
    invocation.say(told[status["status"]])
    if status["status"] == "ERROR":
        raise CommandError(f"{failed}: {status.get('lastError')}")


def body_of_position(message_id: MessageId) -> dict[str, Any]:
    """Returns MessageIdImpl's JSON."""
    ledger, entry, partition = message_id
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": partition, "batchIndex": -1, "batchSize": 0}
