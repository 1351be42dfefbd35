"""Where the settings of a connection come from, and what is refused with which sentence."""

import argparse
import os
import stat
from pathlib import Path

import pytest

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
from magnetar.server.tools.connection.contexts import Contexts, contexts_path, read_contexts, write_contexts
from magnetar.server.tools.connection.settings import load_settings
from magnetar.server.tools.connection.shared_options import add_shared_options


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder), **more}


def test_without_any_source_the_cluster_is_on_this_machine(tmp_path: Path) -> None:
    settings = load_settings({}, environment(tmp_path))
    assert settings.web_service_url == "http://127.0.0.1:8080"
    assert settings.broker_service_url == "pulsar://127.0.0.1:6650"
    assert settings.request_timeout_seconds == 300
    assert settings.credentials.headers() == {}


def test_a_flag_wins_over_the_environment_over_the_context_over_client_conf(tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text("webServiceUrl=http://conf:1\nbrokerServiceUrl=pulsar://conf:1\n")
    sources = environment(tmp_path, PULSAR_CLIENT_CONF=str(conf))
    assert load_settings({}, sources).web_service_url == "http://conf:1"
    write_contexts(Contexts("c", {"c": {"webServiceUrl": "http://context:1"}}), sources)
    assert load_settings({}, sources).web_service_url == "http://context:1"
    assert load_settings({}, sources).broker_service_url == "pulsar://conf:1"
    sources["MAGNETAR_ADMIN_URL"] = "http://env:1"
    assert load_settings({}, sources).web_service_url == "http://env:1"
    assert load_settings({"webServiceUrl": "http://flag:1"}, sources).web_service_url == "http://flag:1"


def test_the_token_file_of_a_nearer_source_wins_over_the_parameters_of_a_farther_one(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    sources = environment(tmp_path, MAGNETAR_AUTH_PLUGIN="basic", MAGNETAR_AUTH_PARAMS="u:p")
    assert load_settings({}, sources).credentials.method == "basic"
    assert load_settings({"tokenFile": str(token)}, sources).credentials.headers() == {"Authorization": "Bearer abc"}


@pytest.mark.parametrize(
    ("plugin", "parameters", "header"),
    [
        ("org.apache.pulsar.client.impl.auth.AuthenticationToken", "token:t1", "Bearer t1"),
        ("org.apache.pulsar.client.impl.auth.AuthenticationToken", '{"token": "t2"}', "Bearer t2"),
        ("token", "t3", "Bearer t3"),
        (
            "org.apache.pulsar.client.impl.auth.AuthenticationBasic",
            '{"userId": "u", "password": "p"}',
            "Basic dTpw",
        ),
        ("basic", "u:p", "Basic dTpw"),
    ],
)
def test_java_s_parameters_of_authentication_are_understood(
    plugin: str, parameters: str, header: str, tmp_path: Path
) -> None:
    settings = load_settings({"authPlugin": plugin, "authParams": parameters}, environment(tmp_path))
    assert settings.credentials.headers() == {"Authorization": header}
    assert parameters not in repr(settings)


def test_a_client_certificate_is_named_by_the_parameters_of_tls(tmp_path: Path) -> None:
    flags = {"authPlugin": "tls", "authParams": "tlsCertFile:/a.pem,tlsKeyFile:/b.pem"}
    credentials = load_settings(flags, environment(tmp_path)).credentials
    assert (credentials.client_certificate, credentials.client_key) == ("/a.pem", "/b.pem")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"authPlugin": "org.example.Kerberos", "authParams": "x"}, "'org.example.Kerberos' is not supported"),
        ({"authPlugin": "token", "authParams": '{"token":'}, "JSON in it cannot be read"),
        ({"authPlugin": "token", "authParams": "token:a\r\nb"}, "characters that no token has"),
        ({"authPlugin": "token", "authParams": "file:///no/such/token"}, "/no/such/token: No such file"),
        ({"authPlugin": "basic", "authParams": "nobody"}, "name:password"),
        ({"authPlugin": "tls"}, "tlsCertFile and tlsKeyFile"),
        ({"tlsKeyFilePath": "/k"}, "needs both"),
        ({"requestTimeout": "-1"}, "'-1' is not a whole number of seconds"),
        ({"requestTimeout": "9" * 30}, "is not a whole number of seconds"),
        ({"context": "lost"}, "there is no context 'lost'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(flags: dict[str, str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=complaint) as caught:
        load_settings(flags, environment(tmp_path))
    if flags.get("authPlugin") == "token" and not flags["authParams"].startswith("file:"):
        assert flags["authParams"] not in str(caught.value)


def test_a_client_conf_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"PULSAR_CLIENT_CONF: .*none\.conf: No such file"):
        load_settings({}, environment(tmp_path, PULSAR_CLIENT_CONF=str(tmp_path / "none.conf")))


def test_the_file_of_contexts_is_for_its_owner_only(tmp_path: Path) -> None:
    sources = environment(tmp_path)
    write_contexts(Contexts("", {"a": {"tokenFile": "/t"}}), sources)
    assert stat.S_IMODE(os.stat(contexts_path(sources)).st_mode) == 0o600
    assert read_contexts(sources) == Contexts("", {"a": {"tokenFile": "/t"}})


@pytest.mark.parametrize("text", ["", "[]", '{"contexts": 1}', '{"contexts": {"a": 1}}'])
def test_a_damaged_file_of_contexts_is_named(text: str, tmp_path: Path) -> None:
    sources = environment(tmp_path)
    write_contexts(Contexts("", {}), sources)
    Path(contexts_path(sources)).write_text(text)
    with pytest.raises(ConnectionSettingsError, match="is not a file of contexts"):
        read_contexts(sources)


def test_an_argparse_parser_with_the_shared_options_collects_the_flags() -> None:
    parser = argparse.ArgumentParser()
    add_shared_options(parser)
    parsed = parser.parse_args(["--admin-url", "http://h:1", "--tls-allow-insecure"])
    assert parsed.connection_flags == {"webServiceUrl": "http://h:1", "tlsAllowInsecureConnection": "true"}
    assert parser.parse_args([]).connection_flags == {}
