"""Where a redirect leads."""

import pytest

from magnetar.server.peers.peer_addresses import place_of
from magnetar.server.peers.peer_errors import PeerAnswerError
from magnetar.server.peers.redirect_rules import origin_of, redirect_of


def test_answers_that_are_no_redirects() -> None:
    assert redirect_of("http://a:1/x", 200, "http://b:1/", 0) is None
    assert redirect_of("http://a:1/x", 303, "http://b:1/", 0) is None
    assert redirect_of("http://a:1/x", 307, None, 0) is None


def test_a_relative_location_stays_at_the_broker() -> None:
    assert redirect_of("http://a:1/x/y", 308, "/z?q=1", 0) == "http://a:1/z?q=1"


@pytest.mark.parametrize("location", ["ftp://b/x", "http://user@b:1/", "http://b:port/"])
def test_a_location_that_is_no_address_of_a_broker_is_refused(location: str) -> None:
    with pytest.raises(PeerAnswerError):
        redirect_of("http://a:1/x", 307, location, 0)


def test_tls_is_never_left() -> None:
    with pytest.raises(PeerAnswerError, match="from https to http"):
        redirect_of("https://a:1/x", 307, "http://a:2/x", 0)
    assert redirect_of("http://a:1/x", 307, "https://a:2/x", 0) == "https://a:2/x"


def test_addresses_are_compared_with_their_ports_and_schemes() -> None:
    assert origin_of("http://A.example/x") == "http://a.example:80"
    assert origin_of("https://[::1]:8443") == "https://[::1]:8443"
    assert place_of("pulsar+ssl://a:6651/") == "pulsar+ssl://a:6651"
    assert place_of("pulsar://a:6650") != place_of("http://a:6650")
    assert place_of("nonsense") is None
