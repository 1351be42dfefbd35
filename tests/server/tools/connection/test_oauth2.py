"""Tokens from an OAuth 2.0 issuer: what it is asked, how long its tokens are used, and what is refused."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.oauth2_issuer import CLIENT, SECONDS, SECRET, Issuer, key_file, running_issuer
from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
from magnetar.server.tools.connection.oauth2 import WELL_KNOWN, OAuth2Client, TokenSource, oauth2_client
from magnetar.server.tools.connection.settings import load_settings

PLUGIN = "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    monkeypatch.setenv("no_proxy", "*")
    with running_issuer() as made:
        yield made


def client_of(issuer: Issuer, folder: Path, **more: str) -> OAuth2Client:
    return oauth2_client({"issuerUrl": issuer.url, "privateKey": str(key_file(folder)), **more})


def headers_of(parameters: dict[str, str], folder: Path) -> dict[str, str]:
    flags = {"authPlugin": PLUGIN, "authParams": json.dumps(parameters)}
    return load_settings(flags, {"XDG_CONFIG_HOME": str(folder)}).credentials.headers()


@pytest.mark.parametrize("form", ["{path}", "file://{path}", "file:{path}", "data:application/json;base64,{data}"])
def test_the_key_file_is_a_path_a_url_or_data(form: str, issuer: Issuer, tmp_path: Path) -> None:
    path = key_file(tmp_path)
    private_key = form.format(path=path, data=base64.b64encode(path.read_bytes()).decode())
    headers = headers_of({"issuerUrl": f"{issuer.url}/", "privateKey": private_key}, tmp_path)
    assert headers["Authorization"].startswith("Bearer ey")
    assert issuer.forms == [{"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}]


def test_audience_and_scope_are_asked_for(issuer: Issuer, tmp_path: Path) -> None:
    TokenSource(client_of(issuer, tmp_path, audience="urn:pulsar", scope="a b")).token()
    assert (issuer.forms[0]["audience"], issuer.forms[0]["scope"]) == ("urn:pulsar", "a b")


def test_a_token_is_used_until_it_is_about_to_expire(issuer: Issuer, tmp_path: Path) -> None:
    now_s = [0.0]
    source = TokenSource(client_of(issuer, tmp_path), lambda: now_s[0])
    first = source.token()
    now_s[0] = 0.9 * SECONDS - 1
    assert source.token() == first
    assert len(issuer.forms) == 1
    now_s[0] += 1
    source.token()
    assert len(issuer.forms) == 2


def test_a_refusal_has_the_issuer_s_words_and_no_secret(issuer: Issuer, tmp_path: Path) -> None:
    parameters = {"issuerUrl": issuer.url, "privateKey": str(key_file(tmp_path, "wrong-secret"))}
    with pytest.raises(ConnectionSettingsError, match="invalid_client: who are you") as told:
        headers_of(parameters, tmp_path)
    assert "wrong-secret" not in str(told.value)
    assert SECRET not in repr(client_of(issuer, tmp_path))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"access_token": 5}',
        b'{"access_token": "a b"}',
        b'{"access_token": "a\\r\\nX: y"}',
    ],
)
def test_an_answer_without_a_token_is_refused(answer: bytes, issuer: Issuer, tmp_path: Path) -> None:
    issuer.answer = answer
    with pytest.raises(ConnectionSettingsError, match=r"without an access_token|did not answer with JSON"):
        TokenSource(client_of(issuer, tmp_path)).token()


@pytest.mark.parametrize("life", ["null", "NaN", "Infinity", "-1", f"1{'0' * 400}", '"600"'])
def test_a_token_without_a_sound_time_is_not_kept(life: str, issuer: Issuer, tmp_path: Path) -> None:
    issuer.answer = f'{{"access_token": "t", "expires_in": {life}}}'.encode()
    source = TokenSource(client_of(issuer, tmp_path))
    assert (source.token(), source.token()) == ("t", "t")
    assert len(issuer.forms) == 2


def test_a_form_is_not_sent_on_to_another_address(issuer: Issuer, tmp_path: Path) -> None:
    issuer.redirects = {"/oauth/token": f"{issuer.url}/elsewhere"}
    with pytest.raises(ConnectionSettingsError, match="refused: HTTP 302"):
        TokenSource(client_of(issuer, tmp_path)).token()


def test_a_redirect_stays_with_its_scheme(issuer: Issuer, tmp_path: Path) -> None:
    issuer.redirects = {WELL_KNOWN: f"{issuer.url}/moved{WELL_KNOWN}"}
    assert TokenSource(client_of(issuer, tmp_path)).token()
    issuer.redirects = {WELL_KNOWN: issuer.url.replace("http:", "https:") + WELL_KNOWN}
    with pytest.raises(ConnectionSettingsError, match="refused: HTTP 302"):
        TokenSource(client_of(issuer, tmp_path)).token()


def test_a_refusal_has_nothing_that_a_terminal_obeys(issuer: Issuer, tmp_path: Path) -> None:
    issuer.answer, issuer.status = json.dumps({"error": "\x1b[2Jno" + "!" * 5_000}).encode(), 400
    with pytest.raises(ConnectionSettingsError, match=r"refused:  \[2Jno!+$") as told:
        TokenSource(client_of(issuer, tmp_path)).token()
    assert len(str(told.value)) < 600


@pytest.mark.parametrize(
    "endpoint", ["file:///etc/passwd", "ftp://127.0.0.1/x", "nothing", "http://me:pass@127.0.0.1/"]
)
def test_the_secret_goes_to_web_addresses_only(endpoint: str, issuer: Issuer, tmp_path: Path) -> None:
    issuer.token_endpoint = endpoint
    with pytest.raises(ConnectionSettingsError, match="token_endpoint is not a web address"):
        TokenSource(client_of(issuer, tmp_path)).token()
    assert issuer.forms == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"issuerUrl": ""}, "needs issuerUrl"),
        ({"privateKey": ""}, "needs privateKey"),
        ({"issuerUrl": "file:///etc"}, "issuerUrl is not a web address"),
        ({"type": "password"}, "only client_credentials"),
        ({"privateKey": "/nowhere/key.json"}, "No such file"),
        ({"privateKey": '{"client_id": "a", "client_secret": "b"}'}, "a key and not a key file's URL; see"),
        ({"privateKey": "data:text/plain;base64,e30="}, "has to begin with data:application/json"),
        ({"privateKey": "data:application/json;base64,%%%"}, "does not hold base64"),
        ({"privateKey": "data:application/json,{}"}, "client_id and a client_secret"),
        ({"privateKey": "data:application/json,nonsense"}, "client_id and a client_secret"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(change: dict[str, str], complaint: str, tmp_path: Path) -> None:
    parameters = {"issuerUrl": "http://127.0.0.1:1", "privateKey": str(key_file(tmp_path)), **change}
    with pytest.raises(ConnectionSettingsError, match=complaint):
        headers_of(parameters, tmp_path)


def test_an_issuer_that_is_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"http://127\.0\.0\.1:1/\.well-known/.* cannot be asked"):
        headers_of({"issuerUrl": "http://127.0.0.1:1", "privateKey": str(key_file(tmp_path))}, tmp_path)


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        ("org.apache.pulsar.client.impl.auth.AuthenticationSasl", "Kerberos .* is not here"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationAthenz", "Athenz .* is not here"),
    ],
)
def test_kerberos_and_athenz_are_told_to_be_absent(plugin: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=sentence):
        load_settings({"authPlugin": plugin, "authParams": "{}"}, {"XDG_CONFIG_HOME": str(tmp_path)})
