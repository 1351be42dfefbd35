"""The options that `localrun` of functions, sources and sinks have in common: the cluster and how to reach it."""

from magnetar.server.tools.admin.command_table import FLAG, Option

GUARANTEES = ("ATLEAST_ONCE", "ATMOST_ONCE", "EFFECTIVELY_ONCE", "MANUAL")
"""What a function or a connector promises about each message."""
LOCAL_RUN = (
    Option("--state-storage-service-url", "the URL for the state storage service"),
    Option("--brokerServiceUrl", "the URL for Pulsar broker", hidden=True),
    Option("--broker-service-url", "the URL for Pulsar broker"),
    Option(
        "--clientAuthPlugin",
        "Java's class of the authentication to the broker",
        hidden=True,
    ),
    Option("--client-auth-plugin", "Java's class of the authentication to the broker"),
    Option("--clientAuthParams", "what that class takes", hidden=True),
    Option("--client-auth-params", "what that class takes"),
    Option("--use_tls", "use tls connection", FLAG, hidden=True),
    Option("--use-tls", "use tls connection", FLAG),
    Option("--tls_allow_insecure", "allow insecure tls connection", FLAG, hidden=True),
    Option("--tls-allow-insecure", "allow insecure tls connection", FLAG),
    Option("--hostname_verification_enabled", "enable hostname verification", FLAG, hidden=True),
    Option("--hostname-verification-enabled", "enable hostname verification", FLAG),
    Option("--tls_trust_cert_path", "tls trust cert file path", hidden=True),
    Option("--tls-trust-cert-path", "tls trust cert file path"),
    Option("--secrets-provider-classname", "whats the classname for secrets provider"),
    Option("--secrets-provider-config", "config that needs to be passed to secrets provider"),
    Option("--metrics-port-start", "the starting port range for metrics server"),
)
