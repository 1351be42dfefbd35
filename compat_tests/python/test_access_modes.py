"""Who may produce: exclusive, fencing and waiting producers, also over a kill; and who must send encrypted messages."""

import threading
from pathlib import Path

import pulsar
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import assert_silent, bodies, receive_bodies, send_all

MODES = pulsar.ProducerAccessMode


def test_an_exclusive_producer_is_alone(client: pulsar.Client, topic: str) -> None:
    exclusive = client.create_producer(topic, access_mode=MODES.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=MODES.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    assert send_all(exclusive, bodies(3))
    exclusive.close()
    assert send_all(client.create_producer(topic, access_mode=MODES.Exclusive), bodies(3))


def test_a_fencing_producer_takes_over_and_the_old_one_does_not_come_back(
    server: Server, topic: str, make_client: ClientFactory
) -> None:
    old = make_client(server.broker_url).create_producer(topic, access_mode=MODES.Exclusive, send_timeout_millis=10_000)
    send_all(old, bodies(1))
    new = make_client(server.broker_url).create_producer(topic, access_mode=MODES.ExclusiveWithFencing)
    with pytest.raises(pulsar.PulsarException):
        old.send(b"fenced")
    assert send_all(new, bodies(3))


def test_who_waits_gets_its_turn(server: Server, topic: str, make_client: ClientFactory) -> None:
    first = make_client(server.broker_url).create_producer(topic, access_mode=MODES.Exclusive)
    second_client = make_client(server.broker_url)
    granted: list[pulsar.Producer] = []
    waiting = threading.Thread(
        target=lambda: granted.append(second_client.create_producer(topic, access_mode=MODES.WaitForExclusive)),
        daemon=True,
    )
    waiting.start()
    send_all(first, bodies(3))
    assert not granted
    first.close()
    waiting.join(60)
    assert send_all(granted[0], bodies(3))


def test_exclusive_access_survives_a_kill(make_server: ServerFactory, topic: str, make_client: ClientFactory) -> None:
    """The epoch belongs to the topic: after the kill the last exclusive producer comes back, and the one that it fenced
    does not."""
    server = make_server()
    server.start()
    make_client(server.broker_url).subscribe(topic, "s").close()
    fenced = make_client(server.broker_url).create_producer(
        topic, access_mode=MODES.Exclusive, send_timeout_millis=10_000
    )
    send_all(fenced, bodies(1))
    winner = make_client(server.broker_url).create_producer(topic, access_mode=MODES.ExclusiveWithFencing)
    send_all(winner, bodies(1))
    server.kill()
    server.start()
    assert send_all(winner, bodies(3))
    with pytest.raises(pulsar.PulsarException):
        fenced.send(b"too late")
    consumer = make_client(server.broker_url).subscribe(topic, "s")
    assert receive_bodies(consumer, 5) == bodies(1) + bodies(1) + bodies(3)
    assert_silent(consumer)


def key_reader(folder: Path) -> pulsar.CryptoKeyReader:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    public, private = folder / "public.pem", folder / "private.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pulsar.CryptoKeyReader(str(public), str(private))


def test_encrypted_messages_pass_and_plain_producers_are_refused_where_encryption_is_required(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, tmp_path: Path
) -> None:
    server = make_server(settings={"encryptionRequireOnProducer": "true"})
    server.start()
    client = make_client(server.broker_url)
    keys = key_reader(tmp_path)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    for batched in (False, True):
        producer = client.create_producer(topic, encryption_key="key", crypto_key_reader=keys, batching_enabled=batched)
        send_all(producer, bodies(10))
        assert receive_bodies(consumer, 10) == bodies(10)
    impatient = make_client(server.broker_url, operation_timeout_seconds=2)  # the client repeats its request until then
    with pytest.raises(pulsar.PulsarException):
        impatient.create_producer(topic)
    wait_until(lambda: "Encryption is required in" in server.log_text(), "the log says why")
