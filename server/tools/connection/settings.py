"""The settings of a connection, gathered from where a person may have put them.

The first source that has a setting wins: a flag, an environment variable, the context, client.conf, the default. The
keys are those of client.conf. `context` names a context other than the current one, `tokenFile` stands for the
authentication by the token in a file, and `requestTimeout` is in seconds.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
from magnetar.server.tools.connection.contexts import context_settings
from magnetar.server.tools.connection.credentials import Credentials, credentials_of

DEFAULT_WEB_URL = "http://127.0.0.1:8080"
DEFAULT_BROKER_URL = "pulsar://127.0.0.1:6650"
REQUEST_TIMEOUT_SECONDS = 300
"""Java's PulsarAdminImpl.DEFAULT_REQUEST_TIMEOUT_SECONDS."""
REQUEST_TIMEOUT_SECONDS_MAX = 10**8
"""Three years: a socket takes no number that is much larger."""

CLIENT_CONF_VARIABLE = "PULSAR_CLIENT_CONF"
"""The path of client.conf, as for pulsar-admin and pulsarctl."""
ENVIRONMENT = {
    "MAGNETAR_ADMIN_URL": "webServiceUrl",
    "MAGNETAR_SERVICE_URL": "brokerServiceUrl",
    "MAGNETAR_CONTEXT": "context",
    "MAGNETAR_AUTH_PLUGIN": "authPlugin",
    "MAGNETAR_AUTH_PARAMS": "authParams",
    "MAGNETAR_TOKEN_FILE": "tokenFile",
    "MAGNETAR_TLS_TRUST_CERTS": "tlsTrustCertsFilePath",
}
"""Environment variables and the settings that they hold. Apache's tools read no setting from the environment but the
path of client.conf."""
TOKEN_VARIABLE = "MAGNETAR_TOKEN"
"""A token, for scripts that get one from a vault: unlike a flag, it is not seen in the list of processes."""


class TlsSettings(NamedTuple):
    """How servers are judged. `trust_certs` is a PEM file, or empty for the system's certificates."""

    trust_certs: str
    allow_insecure: bool
    verify_hostname: bool


class ConnectionSettings(NamedTuple):
    """Where the cluster is and how to log in. `context` is the name of the context that was used, or empty."""

    web_service_url: str
    broker_service_url: str
    credentials: Credentials
    tls: TlsSettings
    request_timeout_seconds: float
    context: str


def load_settings(flags: Mapping[str, str], environment: Mapping[str, str]) -> ConnectionSettings:
    """Returns the settings. `flags` is what the shared options made (see `shared_options`), `environment` the process's
    environment. Raises ConnectionSettingsError."""
    variables = {key: environment[name] for name, key in ENVIRONMENT.items() if environment.get(name)}
    if token := environment.get(TOKEN_VARIABLE):
        variables = {"authPlugin": "token", "authParams": f"token:{token}", **variables}
    name, context = context_settings({**variables, **flags}.get("context", ""), environment)
    merged: dict[str, str] = {}
    for layer in (_client_conf(environment), context, variables, dict(flags)):
        merged |= _with_token_file({key: value for key, value in layer.items() if value.strip()})
    tls = TlsSettings(
        trust_certs=merged.get("tlsTrustCertsFilePath", ""),
        allow_insecure=_is_true(merged.get("tlsAllowInsecureConnection")),
        verify_hostname=_is_true(merged.get("tlsEnableHostnameVerification")),
    )
    return ConnectionSettings(
        web_service_url=(merged.get("webServiceUrl") or merged.get("serviceUrl") or DEFAULT_WEB_URL).strip(),
        broker_service_url=(merged.get("brokerServiceUrl") or DEFAULT_BROKER_URL).strip(),
        credentials=credentials_of(merged),
        tls=tls,
        request_timeout_seconds=_seconds(merged.get("requestTimeout")),
        context=name,
    )


def _client_conf(environment: Mapping[str, str]) -> dict[str, str]:
    path = environment.get(CLIENT_CONF_VARIABLE)
    if not path:
        return {}
    from magnetar.server.config.properties_file import parse_properties

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise ConnectionSettingsError(f"{CLIENT_CONF_VARIABLE}: {path}: {os.strerror(error.errno or 0)}") from None
    return {key: assignment.value for key, assignment in parse_properties(text, path).items()}


def _with_token_file(layer: dict[str, str]) -> dict[str, str]:
    """Replaces `tokenFile` by the plugin and its parameters, so that it also wins over those of a later source."""
    path = layer.pop("tokenFile", None)
    if path is None:
        return layer
    return {**layer, "authPlugin": "token", "authParams": f"file://{os.path.abspath(os.path.expanduser(path))}"}


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _seconds(text: str | None) -> float:
    if text is None:
        return REQUEST_TIMEOUT_SECONDS
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= REQUEST_TIMEOUT_SECONDS_MAX:
        raise ConnectionSettingsError(f"--request-timeout: '{text}' is not a whole number of seconds above 0")
    return float(text)
