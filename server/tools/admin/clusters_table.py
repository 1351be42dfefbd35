"""The rows of `clusters`."""

from magnetar.server.tools.admin.cluster_steps import (
    cluster_data,
    delete_cluster,
    list_clusters,
)
from magnetar.server.tools.admin.command_table import (
    FLAG,
    LINES,
    MARK,
    VALUE,
    Argument,
    Call,
    Command,
    Option,
    Values,
)
from magnetar.server.tools.admin.field_orders import CLUSTER_DATA
from magnetar.server.tools.admin.java_texts import show_failure_domains

_CLUSTER = Argument("cluster", "the cluster's name")
_PATH = "/admin/v2/clusters/{cluster}"
_DOMAIN = Option("--domain-name", "the domain's name", required=True)
_DOMAIN_PATH = _PATH + "/failureDomains/{domain-name}"
_DOMAIN_BROKERS = Option("--broker-list", "the brokers of the domain, comma separated")
_DATA = (
    Option("--url", "the web address, http://host:8080"),
    Option("--url-secure", "the web address with TLS, https://host:8443"),
    Option("--broker-url", "the binary address, pulsar://host:6650"),
    Option("--broker-url-secure", "the binary address with TLS, pulsar+ssl://host:6651"),
    Option("--proxy-url", "the address of a proxy before the cluster"),
    Option("--auth-plugin", "Java's class of the authentication of replicators"),
    Option("--auth-parameters", "what that class takes"),
    Option("--proxy-protocol", "how the proxy is spoken to: SNI", choices=("SNI",)),
    Option("--tls-enable", "replicate over TLS", MARK),
    Option("--tls-allow-insecure", "trust every certificate", MARK),
    Option("--tls-enable-keystore", "use Java's key stores", MARK),
    Option("--tls-trust-store-type", "JKS or PKCS12"),
    Option("--tls-trust-store", "the path of the trust store"),
    Option("--tls-trust-store-pwd", "its password"),
    Option("--tls-key-store-type", "JKS or PKCS12"),
    Option("--tls-key-store", "the path of the key store"),
    Option("--tls-key-store-pwd", "its password"),
    Option("--tls-trust-certs-filepath", "the certificates to trust, PEM"),
    Option("--tls-key-filepath", "the key of replicators, PEM"),
    Option("--tls-certs-filepath", "the certificate of replicators, PEM"),
    Option("--tls-factory-plugin", "Java's class that makes TLS connections"),
    Option("--tls-factory-plugin-params", "what that class takes"),
    Option("--listener-name", "the listener whose addresses are used"),
    Option("--cluster-config-file", "a file with all of this as JSON or as lines of `key: value`"),
)


def _migration(values: Values) -> dict[str, object]:
    from magnetar.server.tools.admin.body_rules import without_missing

    body = {
        "serviceUrl": values["service-url"],
        "serviceUrlTls": values["service-url-secure"],
        "brokerServiceUrl": values["broker-url"],
        "brokerServiceUrlTls": values["broker-url-secure"],
        "empty": False,
    }
    return without_missing(body)


def _domain(values: Values) -> dict[str, list[str]]:
    brokers = values["broker-list"]
    return {"brokers": brokers.split(",")} if brokers and brokers.strip() else {}


def _peers(values: Values) -> list[str] | None:
    peers = values["peer-clusters"]
    return list(dict.fromkeys(peers.split(","))) if peers.strip() else None


COMMANDS = (
    Command(
        "list",
        "Lists the clusters.",
        list_clusters,
        (),
        (Option("-c --current", "mark the cluster that answers by (*)", FLAG),),
        LINES,
        examples=("-c",),
    ),
    Command(
        "get",
        "Shows a cluster.",
        Call("GET", _PATH),
        (_CLUSTER,),
        output=VALUE,
        order=CLUSTER_DATA,
        examples=("us-west",),
    ),
    Command(
        "create",
        "Registers a cluster.",
        Call("PUT", _PATH, body=cluster_data),
        (_CLUSTER,),
        _DATA,
        aliases=("add",),
        examples=("us-west --url http://west:8080 --broker-url pulsar://west:6650",),
    ),
    Command(
        "update",
        "Replaces what is known about a cluster.",
        Call("POST", _PATH, body=cluster_data),
        (_CLUSTER,),
        _DATA,
        examples=("us-west --url http://west:8080 --broker-url pulsar://west:6650",),
    ),
    Command(
        "delete",
        "Forgets a cluster.",
        delete_cluster,
        (_CLUSTER,),
        (Option("-a --all", "delete all tenants, namespaces and topics too", FLAG),),
        examples=("us-west",),
    ),
    Command(
        "update-peer-clusters",
        "Says which clusters' namespaces may be asked for here.",
        Call("POST", _PATH + "/peers", body=_peers),
        (_CLUSTER,),
        (Option("--peer-clusters", "names, comma separated; '' = none", required=True),),
        examples=("us-west --peer-clusters us-east,us-cent",),
    ),
    Command(
        "get-peer-clusters",
        "Lists the peers of a cluster.",
        Call("GET", _PATH + "/peers"),
        (_CLUSTER,),
        output=VALUE,
        examples=("us-west",),
    ),
    Command(
        "get-cluster-migration",
        "Shows to where a cluster migrates.",
        Call("GET", _PATH + "/migrate"),
        (_CLUSTER,),
        output=VALUE,
        examples=("us-west",),
    ),
    Command(
        "update-cluster-migration",
        "Sets to where a cluster migrates.",
        Call("POST", _PATH + "/migrate", (("migrated", "{migrated}"),), _migration),
        (_CLUSTER,),
        (
            Option("--migrated", "the clients are sent there now", FLAG),
            Option("--service-url", "the other cluster's web address"),
            Option("--service-url-secure", "its web address with TLS"),
            Option("--broker-url", "its binary address"),
            Option("--broker-url-secure", "its binary address with TLS"),
        ),
        examples=("us-west --migrated --broker-url pulsar://east:6650",),
    ),
    Command(
        "get-failure-domain",
        "Shows a failure domain.",
        Call("GET", _DOMAIN_PATH),
        (_CLUSTER,),
        (_DOMAIN,),
        VALUE,
        examples=("us-west --domain-name rack1",),
    ),
    *(
        Command(
            f"{verb}-failure-domain",
            summary,
            Call("POST", _DOMAIN_PATH, body=_domain),
            (_CLUSTER,),
            (_DOMAIN, _DOMAIN_BROKERS),
            examples=("us-west --domain-name rack1 --broker-list b1:8080,b2:8080",),
        )
        for verb, summary in (("create", "Creates a failure domain."), ("update", "Changes a failure domain."))
    ),
    Command(
        "delete-failure-domain",
        "Deletes a failure domain.",
        Call("DELETE", _DOMAIN_PATH),
        (_CLUSTER,),
        (_DOMAIN,),
        examples=("us-west --domain-name rack1",),
    ),
    Command(
        "list-failure-domains",
        "Lists the failure domains of a cluster.",
        show_failure_domains,
        (_CLUSTER,),
        examples=("us-west",),
    ),
)
