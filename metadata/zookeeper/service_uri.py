"""BookKeeper's metadataServiceUri: where a cluster's records are, and how its ledgers are laid out there. No I/O.

`zk+hierarchical://h1:2181;h2:2181/ledgers`: driver and layout, servers, and the path of the ledgers' root. Source:
ZKMetadataDriverBase and LedgerLayout of BookKeeper 4.17 (facts 4). `metadata-store:zk:h1:2181,h2:2181/chroot` is what
Pulsar's bookies are configured with: the ledgers are at `/ledgers` below the chroot (AbstractMetadataDriver).
"""

from dataclasses import dataclass

from magnetar.metadata.paths import LEDGERS_ROOT
from magnetar.metadata.zookeeper.connect_string import ConnectString

FROM_THE_CLUSTER = ""
HIERARCHICAL = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
"""The one layout of ledgers' paths that is known here (`pulsar_proto.ledger_record`); the default of Apache's."""
LAYOUTS = {"zk": FROM_THE_CLUSTER, "zk+null": FROM_THE_CLUSTER, "zk+hierarchical": HIERARCHICAL}
"""By the URI's driver: the ledger manager's factory that the cluster must have."""
OF_PULSAR = "metadata-store:zk:"
_FORMAT = "2"
_FACTORY_VERSION = "1"


@dataclass(frozen=True, slots=True)
class ServiceUri:
    connect: str
    """Connect string of the store that has `/ledgers` as the ledgers' root: "h1:2181,h2:2181/chroot"."""
    layout: str = FROM_THE_CLUSTER
    """The ledger manager's factory that the URI asks for; empty: whichever the cluster's LAYOUT names."""


def parse_service_uri(uri: str) -> ServiceUri:
    """A bare "h1:2181,h2:2181" is taken for one with the usual root. Raises ValueError."""
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
    """Why a cluster with this LAYOUT cannot be used, by a URI that asks for the factory `wanted`; None when it can."""
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
