"""The address at which a redirected call goes on: that which Apache 4.0.7 answered in a cluster of two brokers."""

import json
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from magnetar.server.network.ports import Urls
from magnetar.server.web.place_rules import DESTINATION, location, web_url_of

ANSWERS = json.loads((Path(__file__).parents[2] / "vectors" / "cluster_redirects.json").read_text())
"""Requests to a broker that does not serve them, each with Apache's answer."""

BOTH = Urls("pulsar://b:6650", "pulsar+ssl://b:6651", "http://b:8080", "https://b:8443")


def address(url: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Returns host, path and parameters; their order means nothing."""
    parts = urlsplit(url)
    return parts.netloc, parts.path, sorted(parse_qsl(parts.query, keep_blank_values=True))


@pytest.mark.parametrize("answer", [each for each in ANSWERS if each["status"] == 307], ids=lambda each: each["url"])
def test_a_call_goes_on_where_apache_sends_it(answer: dict[str, str]) -> None:
    given, wanted = urlsplit(answer["url"]), urlsplit(answer["location"])
    target = given.path + (f"?{given.query}" if given.query else "")
    flag = dict(parse_qsl(wanted.query)).get("authoritative")
    authoritative = None if flag is None else flag == "true"
    made = location(target, f"http://{wanted.netloc}", authoritative=authoritative)
    assert address(made) == address(answer["location"])


class TestLocation:
    def test_an_encoded_path_stays_as_it_came(self) -> None:
        target = "/admin/v2/persistent/t/n/a%2Fb%20c/stats?x=%26%3D"
        assert location(target, "http://b:1/", authoritative=True) == (
            "http://b:1/admin/v2/persistent/t/n/a%2Fb%20c/stats?x=%26%3D&authoritative=true"
        )

    def test_authoritative_is_replaced_however_often_and_however_it_was_written(self) -> None:
        target = "/p?authoritative=true&a=1&%61uthoritative=true&authoritative"
        assert location(target, "http://b:1", authoritative=False) == "http://b:1/p?a=1&authoritative=false"

    def test_without_authoritative_the_parameters_stay(self) -> None:
        assert location("/p?authoritative=true", "http://b:1") == "http://b:1/p?authoritative=true"

    def test_dropped_parameters_are_left_out(self) -> None:
        target = "/p?destinationBroker=b%3A1&unload=true"
        assert location(target, "http://b:1", authoritative=True, dropped=(DESTINATION,)) == (
            "http://b:1/p?unload=true&authoritative=true"
        )

    def test_a_path_that_looks_like_a_host_does_not_change_the_host(self) -> None:
        assert urlsplit(location("//evil/x", "http://b:1")).netloc == "b:1"


class TestWebUrl:
    def test_a_client_keeps_its_kind_of_port(self) -> None:
        assert web_url_of(BOTH, is_https=False) == "http://b:8080"
        assert web_url_of(BOTH, is_https=True) == "https://b:8443"

    def test_the_other_kind_is_better_than_none(self) -> None:
        assert web_url_of(Urls("", "", "", "https://b:8443"), is_https=False) == "https://b:8443"
        assert web_url_of(Urls("", "", "http://b:8080", ""), is_https=True) == "http://b:8080"
        assert web_url_of(Urls(), is_https=False) == ""
