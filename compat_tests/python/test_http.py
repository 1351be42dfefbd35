"""The HTTP side that clients, load balancers and Prometheus use."""

import json
import urllib.error
import urllib.request
from typing import Any

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import owner_web_url
from compat_tests.python.support import bodies, receive_bodies, send_all

TIMEOUT_SECONDS = 60


def get(url: str) -> tuple[int, str]:
    """Returns (status, body); redirects are followed."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def test_the_health_check_answers_ok(server: Server) -> None:
    assert get(f"{server.web_url}/admin/v2/brokers/health") == (200, "ok")


def test_a_lookup_names_a_broker_of_this_cluster(server: Server, topic: str) -> None:
    status, body = get(f"{server.web_url}/lookup/v2/topic/{path_of(topic)}")
    assert status == 200
    answer: dict[str, Any] = json.loads(body)
    assert answer["brokerUrl"] in server.address.broker_urls
    assert "brokerUrlTls" in answer or "brokerUrlSsl" in answer


def test_a_lookup_in_a_namespace_that_does_not_exist_is_404(server: Server) -> None:
    status, body = get(f"{server.web_url}/lookup/v2/topic/persistent/public/nowhere/t")
    assert status == 404
    assert "reason" in json.loads(body)


def test_partitions_of_a_plain_topic_are_none(server: Server, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic)
    status, body = get(f"{server.web_url}/admin/v2/{path_of(topic)}/partitions")
    assert status == 200
    assert json.loads(body)["partitions"] == 0


def test_a_topic_is_listed_in_its_namespace(server: Server, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic)
    status, body = get(f"{server.web_url}/admin/v2/persistent/public/default")
    assert status == 200
    assert topic in json.loads(body)


def test_metrics_count_what_went_through_a_topic(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), bodies(10))
    receive_bodies(consumer, 10)

    def lines() -> list[str]:
        status, body = get(f"{owner_web_url(server, topic)}/metrics")
        assert status == 200
        return [line for line in body.splitlines() if topic in line]

    wait_until(lambda: any(value_is(line, "pulsar_in_messages_total", 10) for line in lines()), "the messages in")
    wait_until(lambda: any(value_is(line, "pulsar_out_messages_total", 10) for line in lines()), "the messages out")
    wait_until(lambda: any(value_is(line, "pulsar_subscription_back_log", 0) for line in lines()), "no backlog")


def value_is(line: str, name: str, value: float) -> bool:
    return line.startswith(name + "{") and float(line.rpartition(" ")[2]) == value


@pytest.mark.parametrize("path", ["/", "/nowhere", "/admin/v2/nowhere", "/lookup/v2/topic/ftp/public/default/t"])
def test_an_unknown_path_is_no_server_error(server: Server, path: str, is_peer: bool) -> None:
    if is_peer and "ftp" in path:
        pytest.skip("the peer answers 500 (NOTES.md)")
    status, _ = get(f"{server.web_url}{path}")
    assert status < 500
