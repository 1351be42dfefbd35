"""Faults of a server's storage, process and clock, and what a user of the official client observes."""

import base64
import secrets
import time
from datetime import timedelta

import jwt
import pulsar
import pytest

from compat_tests.harness import wait_until
from magnetar.testing import Server
from magnetar.testing.admin_calls import AdminCalls, AdminError
from magnetar.testing.faults import FAULTS
from tests.testing.fault_scenes import RECEIVE_MS, SHORT_TIMEOUT_MS, backlog, receive, stored
from tests.testing.scenes import client_of

pytestmark = pytest.mark.process

HOUR_SECONDS = 3600


# --- storage ----------------------------------------------------------------------------------------------------------


def test_a_failed_ledger_write_is_repeated_by_the_client(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"one")
    before = server.log_size()
    fault = server.faults.fail_ledger_writes()
    producer.send(b"two")
    assert server.faults.struck(fault) == 1
    assert "storing failed, producers are closed" in server.log_text(before)
    assert stored(client, topic, b"two") == [b"one", b"two"]


def test_a_delayed_ledger_write_delays_the_receipt(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    fault = server.faults.delay_ledger_writes(seconds=0.5)
    producer.send(b"one")
    assert server.faults.struck(fault) == 1
    assert stored(client, topic, b"one") == [b"one"]


def test_a_full_disk_stops_producers_and_no_consumers_until_there_is_room(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "billing")
    client.create_producer(topic).send(b"one")
    server.faults.fill_disk()
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic, send_timeout_millis=SHORT_TIMEOUT_MS).send(b"two")
    assert receive(consumer) == b"one"
    server.faults.fill_disk(False)
    wait_until(lambda: can_send(client, topic), "the topic takes messages")


def can_send(client: pulsar.Client, topic: str) -> bool:
    try:
        producer = client.create_producer(topic)
    except pulsar.PulsarException:
        return False
    producer.send(b"three")
    producer.close()
    return True


def test_what_is_published_while_the_bookie_is_cut_off_has_its_receipt_when_the_bookie_is_back(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    impatient = client.create_producer(topic, producer_name="impatient", send_timeout_millis=SHORT_TIMEOUT_MS)
    patient = client.create_producer(topic, producer_name="patient", send_timeout_millis=RECEIVE_MS)
    consumer = client.subscribe(topic, "billing")
    receipts: list[pulsar.Result] = []
    server.faults.partition_bookie()
    for content in (b"one", b"two"):
        patient.send_async(content, lambda result, message_id: receipts.append(result))
    with pytest.raises(pulsar.Timeout):
        impatient.send(b"three")
    assert receipts == []
    server.faults.partition_bookie(False)
    patient.flush()
    assert receipts == [pulsar.Result.Ok, pulsar.Result.Ok]
    # The message that timed out had reached the broker, too.
    assert {receive(consumer) for _ in range(3)} == {b"one", b"two", b"three"}


def test_reads_wait_while_the_bookie_is_cut_off(server: Server, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).send(b"one")
    server.kill()
    server.start()  # what it has kept in memory is gone
    server.faults.partition_bookie()
    with (
        client_of(server.service_url, operation_timeout_seconds=1) as impatient,
        pytest.raises(pulsar.PulsarException),
    ):
        impatient.create_reader(topic, pulsar.MessageId.earliest)
    server.faults.partition_bookie(False)
    assert stored(client, topic, b"one") == [b"one"]


def test_a_server_whose_bookie_is_cut_off_stops_in_order(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, send_timeout_millis=SHORT_TIMEOUT_MS)
    before = server.log_size()
    server.faults.partition_bookie()
    with pytest.raises(pulsar.Timeout):
        producer.send(b"one")
    server.stop()
    assert "cut off a stop" not in server.log_text(before)
    server.start()
    assert stored(client, topic, b"one") == [b"one"]


def test_a_killed_server_is_back_with_everything_that_had_a_receipt(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for number in range(10):
        producer.send(b"%d" % number)
    server.kill()
    server.start()
    producer.send(b"last")
    assert stored(client, topic, b"last") == [*(b"%d" % number for number in range(10)), b"last"]


# --- the clock --------------------------------------------------------------------------------------------------------


def test_delayed_messages_come_when_the_clock_reaches_them(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "billing", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    producer.send(b"in an hour", deliver_after=timedelta(hours=1))
    producer.send(b"now")
    assert receive(consumer) == b"now"
    server.faults.move_clock(HOUR_SECONDS + 1)
    # Without looking at the clock after the jump, the server would look again a minute later.
    assert consumer.receive(RECEIVE_MS // 3).data() == b"in an hour"


def test_messages_expire_when_the_clock_passes_their_time_to_live(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    namespace = "/".join(topic.split("/")[2:4])
    server.admin.call("POST", f"/admin/v2/namespaces/{namespace}/messageTTL", HOUR_SECONDS)
    consumer = client.subscribe(topic, "billing")
    consumer.close()
    client.create_producer(topic).send(b"one")
    assert backlog(server, topic, "billing") == 1
    server.faults.move_clock(HOUR_SECONDS / 2)
    assert backlog(server, topic, "billing") == 1
    server.faults.move_clock(2 * HOUR_SECONDS)
    wait_until(lambda: backlog(server, topic, "billing") == 0, "the message expires")


def test_retained_messages_are_deleted_when_the_clock_passes_their_retention(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    namespace = "/".join(topic.split("/")[2:4])
    retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
    server.admin.call("POST", f"/admin/v2/namespaces/{namespace}/retention", retention)
    consumer = client.subscribe(topic, "billing")
    client.create_producer(topic).send(b"one")
    consumer.acknowledge(consumer.receive(RECEIVE_MS))
    wait_until(lambda: backlog(server, topic, "billing") == 0, "the acknowledgement counts")
    server.faults.unload(topic)  # closes the ledger: only closed ledgers are deleted
    client.create_producer(topic).send(b"two")
    assert stored(client, topic, b"two") == [b"one", b"two"]
    server.faults.move_clock(2 * HOUR_SECONDS)
    assert stored(client, topic, b"two") == [b"two"]


def test_tokens_expire_when_the_clock_passes_their_time() -> None:
    secret = secrets.token_bytes(32)
    admin, expiring = (
        jwt.encode({"sub": "admin", **more}, secret) for more in ({}, {"exp": int(time.time()) + HOUR_SECONDS})
    )
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(secret).decode()}",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
    }
    with Server(settings, admin_token=admin) as server:
        with client_of(server.service_url, authentication=pulsar.AuthenticationToken(expiring)) as client:
            client.create_producer("orders").send(b"one")
        server.faults.move_clock(2 * HOUR_SECONDS)
        token = pulsar.AuthenticationToken(expiring)
        with (
            client_of(server.service_url, authentication=token, operation_timeout_seconds=1) as client,
            pytest.raises(pulsar.PulsarException),
        ):
            client.create_producer("orders")
        server.faults.move_clock(0)
        with client_of(server.service_url, authentication=pulsar.AuthenticationToken(expiring)) as client:
            client.create_producer("orders").send(b"two")
        with pytest.raises(AdminError, match="401"):
            AdminCalls(server.admin_url).call("GET", FAULTS)
        nobody = jwt.encode({"sub": "nobody"}, secret)
        with pytest.raises(AdminError, match="super-user"):
            AdminCalls(server.admin_url, nobody).call("GET", FAULTS)
