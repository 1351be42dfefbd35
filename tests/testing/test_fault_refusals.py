"""Who may set faults, and which faults there are."""

import json
import urllib.error
import urllib.request

import pytest

from magnetar.testing import Server
from magnetar.testing.admin_calls import AdminError
from magnetar.testing.faults import FAULTS
from tests.testing.scenes import client_of

pytestmark = pytest.mark.process


def test_a_server_that_does_not_allow_faults_takes_none() -> None:
    with Server({"faultInjectionEnabled": "false"}) as plain, client_of(plain.service_url) as client:
        client.subscribe("orders", "billing")
        faults = plain.faults
        for call in (
            lambda: faults.lose("receipt"),
            lambda: plain.admin.call("GET", FAULTS),
            lambda: plain.admin.call("DELETE", FAULTS),
            lambda: faults.fill_disk(),
            lambda: faults.move_clock(1),
            lambda: faults.partition_bookie(),
            lambda: faults.close_producers("orders"),
            lambda: faults.close_consumers("orders", "billing"),
            lambda: faults.redeliver("orders", "billing"),
        ):
            with pytest.raises(AdminError, match=r"412 .*faultInjectionEnabled=true"):
                call()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"target": "answer", "effect": "lose"}, "target: "),
        ({"target": "lookup", "effect": "lose"}, "the effect of a lookup is one of fail: lose"),
        ({"target": "receipt", "effect": "lose", "topic": "a/b/c/d/e"}, "The fault cannot be set"),
        ({"target": "ledger-write", "effect": "fail", "topic": "orders"}, "a ledger-write has no topic"),
        ({"target": "ack", "effect": "lose", "times": 0}, "times at least 1"),
        ({"target": "ack", "effect": "lose", "chance": 2}, "chance must be above 0 and at most 1: 2.0"),
        ({"target": "ack", "effect": "delay", "delayMs": 600_001}, "delayMs must be from 0 to 600000: 600001"),
        ({"target": "lookup", "effect": "fail", "error": "Nothing"}, "error must be one of"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_the_reason(
    server: Server, body: dict[str, object], complaint: str
) -> None:
    with pytest.raises(AdminError, match=f"400 .*{complaint}"):
        server.admin.call("POST", FAULTS, body)
    assert server.admin.call("GET", FAULTS) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("clock", "a whole number of milliseconds"),
        ("full-disk", "true or false"),
        ("bookie-partition", "true or false"),
    ],
)
def test_null_moves_no_clock_and_takes_back_no_fault(server: Server, path: str, kind: str) -> None:
    request = urllib.request.Request(f"{server.admin_url}{FAULTS}/{path}", b"null", method="PUT")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value as answer:
        assert answer.code == 400
        assert json.load(answer) == {"reason": f"the body must be {kind}, not null"}


def test_no_more_faults_are_kept_than_a_server_can_bear(server: Server) -> None:
    for _ in range(100):
        server.faults.lose("ack", after=1)
    with pytest.raises(AdminError, match=r"400 .*there are 100 faults already"):
        server.faults.lose("ack")
