"""`check latency`: messages are published to a topic of the check's own, and read back.

The topic is kept: to make and delete one at every check would cost the cluster more than the messages do, and would
need an administrator's rights. Nothing is left behind in it: the check reads without a subscription, so that the topic
has no backlog, even when a check is killed, and its closed ledgers are trimmed.
"""

import time
import uuid
from typing import Any

from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.messages.check_measures import LATENCY, PUBLISH
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds
from magnetar.server.tools.messages.message_client import close_quietly, import_client, open_client, sentence

DEFAULT_TOPIC = "persistent://public/default/magnetar-check"


def check_latency(
    outcome: Outcome, settings: ConnectionSettings, topic: str, samples: int, thresholds: Thresholds, timeout_s: float
) -> None:
    """Adds the longest latencies of `samples` messages that were sent one after the other."""
    pulsar = import_client()
    deadline_s = time.monotonic() + timeout_s
    client = open_client(settings, operation_seconds=max(1, int(timeout_s)))
    try:
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        producer = client.create_producer(topic, send_timeout_millis=max(1, int(timeout_s * 1000)))
        published_s, received_s = 0.0, 0.0
        for _ in range(samples):
            sent, received = _sample(producer, reader, deadline_s)
            published_s, received_s = max(published_s, sent), max(received_s, received)
        outcome.add(LATENCY, received_s, thresholds)
        outcome.add(PUBLISH, published_s, thresholds)
    except TimeoutError:
        outcome.fail(State.CRITICAL, f"a message was stored but did not come back within {timeout_s:g} s")
    except pulsar.PulsarException as error:
        outcome.fail(State.CRITICAL, sentence(error, settings.broker_service_url))
    finally:
        close_quietly(client)


def _sample(producer: Any, reader: Any, deadline_s: float) -> tuple[float, float]:
    """Returns the seconds from sending to the receipt, and to the message itself. Raises TimeoutError."""
    pulsar = import_client()
    mark = uuid.uuid4().bytes
    began_s = time.monotonic()
    producer.send(mark)
    receipt_s = time.monotonic() - began_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            message = reader.read_next(max(1, int(left_s * 1000)))
        except pulsar.Timeout:
            break
        # Another check may use the topic at the same time.
        if message.data() == mark:
            return receipt_s, time.monotonic() - began_s
    raise TimeoutError
