"""The options with which every tool is told where the cluster is and how to log in.

The long names are those of pulsar-admin (PulsarAdminTool.RootParams); those of pulsarctl are accepted as well.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse

DESTINATION = "connection_flags"
"""The attribute of the argparse namespace that holds the dictionary of flags for `load_settings`."""


class SharedOption(NamedTuple):
    """One option. `key` is the setting's name in the flags that `load_settings` takes. An option without a `metavar`
    takes no value and sets the key to "true"."""

    names: tuple[str, ...]
    key: str
    metavar: str
    help: str


SHARED_OPTIONS = (
    SharedOption(
        ("--admin-url", "--admin-service-url"), "webServiceUrl", "URL", "the cluster's web address, http://host:8080"
    ),
    SharedOption(("--service-url",), "brokerServiceUrl", "URL", "the cluster's binary address, pulsar://host:6650"),
    SharedOption(("--context",), "context", "NAME", "the context to use instead of the current one"),
    SharedOption(("--auth-plugin",), "authPlugin", "CLASS", "Java's class of the authentication, or token, basic, tls"),
    SharedOption(("--auth-params",), "authParams", "TEXT", "what the class takes: token:…, file:///…, or JSON"),
    SharedOption(("--token-file",), "tokenFile", "FILE", "log in with the token in this file"),
    SharedOption(("--request-timeout",), "requestTimeout", "SECONDS", "for each call; 300 unless it is set"),
    SharedOption(("--tls-allow-insecure",), "tlsAllowInsecureConnection", "", "trust every server's certificate"),
    SharedOption(("--tls-trust-cert-path",), "tlsTrustCertsFilePath", "FILE", "the certificates to trust, PEM"),
    SharedOption(
        ("--tls-enable-hostname-verification",),
        "tlsEnableHostnameVerification",
        "",
        "refuse a server whose certificate names another host",
    ),
    SharedOption(("--tls-provider",), "tlsProvider", "NAME", "accepted for pulsar-admin's sake and not used"),
    SharedOption(("--tls-cert-file",), "tlsCertificateFilePath", "FILE", "log in with this certificate, PEM"),
    SharedOption(("--tls-key-file",), "tlsKeyFilePath", "FILE", "the key of that certificate, PEM"),
)


def add_shared_options(parser: "argparse.ArgumentParser") -> None:
    """Adds the options to a parser. After parsing, `namespace.connection_flags` is the dictionary that `load_settings`
    takes."""
    from magnetar.server.tools.connection.argparse_action import RememberFlag

    group = parser.add_argument_group("connection")
    parser.set_defaults(**{DESTINATION: {}})
    for option in SHARED_OPTIONS:
        group.add_argument(
            *option.names,
            dest=option.key,
            action=RememberFlag,
            nargs=None if option.metavar else 0,
            metavar=option.metavar or None,
            help=option.help,
        )
