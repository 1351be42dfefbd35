"""bindAddresses: which addresses are opened, and which settings are refused."""

import logging

import pytest

from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.server.network.bind_addresses import BindAddress, BindSettings, bind_addresses


def opened(text: str, listeners: tuple[str, ...] = ("inside", "outside")) -> list[BindAddress]:
    return bind_addresses(load_config(None, {"bindAddresses": text}).fill(BindSettings), listeners)


def test_each_address_belongs_to_a_listener(caplog: pytest.LogCaptureFixture) -> None:
    assert opened("inside:pulsar://0.0.0.0:6652, outside:pulsar+ssl://[::1]:6653,outside:pulsar://b.example.org:0") == [
        BindAddress("inside", "pulsar", "0.0.0.0", 6652),
        BindAddress("outside", "pulsar+ssl", "::1", 6653),
        BindAddress("outside", "pulsar", "b.example.org", 0),
    ]
    assert [each.has_tls for each in opened("inside:pulsar://a:1,inside:pulsar+ssl://a:2")] == [False, True]
    assert not caplog.records


def test_addresses_of_other_protocols_are_passed_over_as_apaches_broker_does(caplog: pytest.LogCaptureFixture) -> None:
    found = opened("outside:http://0.0.0.0:8081,kafka:kafka://0.0.0.0:9092,inside:pulsar://0.0.0.0:6652")
    assert found == [BindAddress("inside", "pulsar", "0.0.0.0", 6652)]
    assert ["http://0.0.0.0:8081 is not opened" in record.getMessage() for record in caplog.records] == [True, False]
    assert "kafka://0.0.0.0:9092 is not opened" in caplog.records[1].getMessage()


def test_an_address_of_a_listener_that_is_not_advertised_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert len(opened("elsewhere:pulsar://0.0.0.0:6652")) == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "advertisedListeners has no 'elsewhere'" in record.getMessage()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pulsar://broker:6650", "malformed"),
        ("inside", "malformed"),
        (":pulsar://broker:6650", "malformed"),
        ("inside:pulsar://broker", "malformed"),
        ("inside:pulsar://broker:65536", "malformed"),
        ("inside:pulsar://[::1:6650", "malformed"),
        ("inside:pulsar://:6650", "malformed"),
        ("inside:pulsar://broker:6650/x", "malformed"),
        ("inside:pulsar://a:1,outside:pulsar+ssl://a:1", "a port 1 is there twice"),
    ],
)
def test_what_is_no_address_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"bindAddresses.*{complaint}"):
        opened(text)
