"""advertisedListeners: to which address a client is sent, and which settings are refused."""

import pytest

from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.server.network.advertised_listeners import AdvertisedListeners, ListenerSettings, goes_through
from magnetar.server.network.ports import Urls

OWN = Urls("pulsar://127.0.0.1:6650", "pulsar+ssl://127.0.0.1:6651", "http://127.0.0.1:8080")


def listeners(text: str, internal: str = "") -> AdvertisedListeners:
    overrides = {"advertisedListeners": text, **({"internalListenerName": internal} if internal else {})}
    return AdvertisedListeners(OWN, load_config(None, overrides).fill(ListenerSettings))


def test_without_listeners_there_is_one_without_name() -> None:
    only = AdvertisedListeners(OWN)
    assert only.internal == OWN
    assert "outside" not in only.named


def test_each_name_has_its_addresses_and_the_first_one_is_internal() -> None:
    both = listeners("inside:pulsar://broker:6650, outside:pulsar://example.org:30650,outside:pulsar+ssl://[::1]:30651")
    assert both.named["outside"] == Urls("pulsar://example.org:30650", "pulsar+ssl://[::1]:30651")
    assert both.named["inside"] == Urls("pulsar://broker:6650")
    assert both.internal == Urls("pulsar://broker:6650", "pulsar+ssl://[::1]:30651", OWN.web)


def test_an_open_port_that_the_internal_listener_lacks_has_another_listeners_address() -> None:
    text = "inside:pulsar://broker:6650,outside:pulsar://example.org:30650,outside:http://example.org:30080"
    assert listeners(text).internal == Urls("pulsar://broker:6650", OWN.broker_tls, "http://example.org:30080")
    outside = listeners("inside:pulsar://broker:6650,outside:https://example.org:30443")
    assert OWN.web_tls == ""
    assert outside.internal == Urls("pulsar://broker:6650", OWN.broker_tls, OWN.web)


def test_the_internal_listener_may_be_any() -> None:
    both = listeners("outside:pulsar://example.org:30650,inside:pulsar://broker:6650,inside:http://broker:80", "inside")
    assert both.internal == Urls("pulsar://broker:6650", OWN.broker_tls, "http://broker:80")


@pytest.mark.parametrize(
    ("urls", "through"),
    [
        (OWN, True),
        (Urls(broker_tls="pulsar+ssl://localhost:6651"), True),
        (Urls("pulsar://[::1]:6650"), True),
        (Urls("pulsar://example.org:6650"), False),
        (Urls("pulsar://10.0.0.1:6650"), False),
    ],
)
def test_who_is_sent_to_a_loopback_address_stays_where_it_is(urls: Urls, through: bool) -> None:
    assert goes_through(urls) == through


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pulsar://broker:6650", "NAME:SCHEME://HOST:PORT"),
        ("inside", "NAME:SCHEME://HOST:PORT"),
        (":pulsar://broker:6650", "NAME:SCHEME://HOST:PORT"),
        ("inside:pulsar://broker", "NAME:SCHEME://HOST:PORT"),
        ("inside:pulsar://broker:65536", "NAME:SCHEME://HOST:PORT"),
        ("inside:pulsar://:6650", "NAME:SCHEME://HOST:PORT"),
        ("inside:pulsar://broker:6650/x", "NAME:SCHEME://HOST:PORT"),
        ("inside:ftp://broker:6650", "pulsar, pulsar\\+ssl, http, https"),
        ("inside:pulsar://a:1,inside:pulsar://b:1", "inside has two addresses for pulsar"),
        ("inside:pulsar://a:1,outside:pulsar+ssl://a:1", "a:1 is the address of inside and of outside"),
    ],
)
def test_what_is_no_listener_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"advertisedListeners.*{complaint}"):
        listeners(text)


def test_an_internal_listener_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"internalListenerName.*'inside'"):
        listeners("outside:pulsar://example.org:30650", "inside")


def test_one_address_and_several_exclude_each_other() -> None:
    overrides = {"advertisedListeners": "inside:pulsar://broker:6650", "advertisedAddress": "broker"}
    with pytest.raises(ConfigError, match="exclude each other"):
        load_config(None, overrides).fill(ListenerSettings)
