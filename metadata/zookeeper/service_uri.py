"""Parses BookKeeper's metadataServiceUri, which names the place of a cluster's records and the layout of its ledgers'
paths. No I/O.

`zk+hierarchical://h1:2181;h2:2181/ledgers` names driver and layout, servers, and the path of the ledgers' root. Source:
ZKMetadataDriverBase and LedgerLayout of BookKeeper 4.17. Pulsar's bookies are configured with
`metadata-store:zk:h1:2181,h2:2181/chroot`, where the ledgers are at `/ledgers` below the chroot
(AbstractMetadataDriver).
"""

from dataclasses import dataclass

from magnetar.metadata.paths import LEDGERS_ROOT
from magnetar.metadata.zookeeper.connect_string import ConnectString

FROM_THE_CLUSTER = ""
HIERARCHICAL = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
"""The only layout of ledgers' paths that Magnetar supports (`pulsar_proto.records.ledger_record`). It is Apache's
default."""
LAYOUTS = {"zk": FROM_THE_CLUSTER, "zk+null": FROM_THE_CLUSTER, "zk+hierarchical": HIERARCHICAL}
"""For each driver that a URI may name, the class of the ledger manager factory that the cluster must have."""
OF_PULSAR = "metadata-store:zk:"
_FORMAT = "2"
_FACTORY_VERSION = "1"


@dataclass(frozen=True, slots=True)
class ServiceUri:
    """The parts of a metadataServiceUri."""

    connect: str
    """The connect string of the store in which `/ledgers` is the ledgers' root, such as "h1:2181,h2:2181/chroot"."""
    layout: str = FROM_THE_CLUSTER
    """The ledger manager factory that the URI asks for; empty when the URI accepts the factory that the cluster's
    LAYOUT names."""


def parse_service_uri(uri: str) -> ServiceUri:
    """Parses a URI. A text without scheme, such as "h1:2181,h2:2181", means these servers and the root `/ledgers`.
    Raises ValueError for a URI that cannot be parsed or names an unknown driver."""
    if uri.strip().startswith(OF_PULSAR):
        return ServiceUri(_checked(uri, uri.strip().removeprefix(OF_PULSAR).replace(";", ",")))
    driver, separator, rest = uri.strip().partition("://")
    if not separator:
        driver, rest = "zk", uri.strip().removeprefix("zk:")
    if driver not in LAYOUTS:
        raise ValueError(f"metadataServiceUri {uri!r}: it must begin with one of {', '.join(LAYOUTS)}, then ://")
    servers, slash, path = rest.partition("/")
    root = f"/{path.strip('/')}" if slash and path.strip("/") else LEDGERS_ROOT
    if not root.endswith(LEDGERS_ROOT):
        raise ValueError(f"metadataServiceUri {uri!r}: the path must end in {LEDGERS_ROOT}")
    connect = servers.replace(";", ",") + root.removesuffix(LEDGERS_ROOT)
    return ServiceUri(_checked(uri, connect), LAYOUTS[driver])


def _checked(uri: str, connect: str) -> str:
    try:
        ConnectString.parse(connect)
    except ValueError as error:
        raise ValueError(f"metadataServiceUri {uri!r}: {error}") from None
    return connect


def layout_fault(value: bytes, wanted: str = FROM_THE_CLUSTER) -> str | None:
    """Returns why a cluster whose LAYOUT has this value cannot be used, or None when it can.

    `wanted` is the factory that the URI asks for.
    """
    text = value.decode("utf-8", "replace").strip()
    version, _, rest = text.partition("\n")
    factory, _, factory_version = rest.partition(":")
    if version != _FORMAT or not factory_version:
        return f"the cluster's {LEDGERS_ROOT}/LAYOUT is not understood: {text[:100]!r}"
    if wanted and factory != wanted:
        return f"the cluster keeps its ledgers by {factory}, the metadataServiceUri asks for {wanted}"
    if (factory, factory_version) != (HIERARCHICAL, _FACTORY_VERSION):
        return f"the cluster keeps its ledgers by {factory} {factory_version}; known here is {HIERARCHICAL} 1"
    return None
