"""BookKeeper's metadataServiceUri: where a cluster's records are. No I/O.

`zk+hierarchical://h1:2181;h2:2181/ledgers`: the servers, and the path of the ledgers' root. Forms and drivers as in
BookKeeper's ZKMetadataDriverBase (facts 4).
"""

from metadata.paths import LEDGERS_ROOT

DRIVERS = ("zk", "zk+hierarchical", "zk+null")
"""All that keep ledgers as the hierarchical ("hybrid") manager does, or as the cluster's LAYOUT says."""


def zookeeper_connect(uri: str) -> str:
    """The connect string of the store that has `/ledgers` as its ledgers' root: "h1:2181,h2:2181/chroot".

    A bare "h1:2181,h2:2181" is taken for one with the usual root. Raises ValueError.
    """
    driver, separator, rest = uri.partition("://")
    if not separator:
        driver, rest = "zk", uri.removeprefix("zk:")
    if driver not in DRIVERS:
        raise ValueError(f"metadataServiceUri {uri!r}: the driver must be one of {', '.join(DRIVERS)}")
    servers, slash, path = rest.partition("/")
    if not servers.strip(";, "):
        raise ValueError(f"metadataServiceUri {uri!r} names no server")
    root = f"/{path.strip('/')}" if slash and path.strip("/") else LEDGERS_ROOT
    if not root.endswith(LEDGERS_ROOT):
        raise ValueError(f"metadataServiceUri {uri!r}: the path must end in {LEDGERS_ROOT}")
    return servers.replace(";", ",") + root.removesuffix(LEDGERS_ROOT)
