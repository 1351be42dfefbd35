"""`magnetar initialize-cluster-metadata`: writes the records of a new Pulsar cluster, with the options of Apache's
tool."""

import argparse
import re
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar initialize-cluster-metadata --cluster prod --metadata-store zk:zk1:2181,zk2:2181,zk3:2181 \\
      --web-service-url http://pulsar:8080 --broker-service-url pulsar://pulsar:6650

It is run once for a cluster, before its first bookie and broker. Records that exist are kept, so a second run does no
harm. A run with the name of another cluster and the same configuration store adds that cluster to the tenants and
namespaces that all clusters have.
"""

BUNDLES_MAX = 65_536
"""The largest number of bundles. The boundaries of more bundles would not fit into a record, which ZooKeeper limits to
1 MB."""

_CLUSTER_NAME = re.compile(r"[-=:.\w]+", re.ASCII)


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "initialize-cluster-metadata",
        summary="make the records of a new cluster of brokers",
        description="Makes the records of a new Pulsar cluster in ZooKeeper.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("-c", "--cluster", required=True, type=_cluster_name, metavar="NAME", help="the name of the cluster")
    _add_stores(parser)
    add("-uw", "--web-service-url", required=True, metavar="URL", help="the brokers' HTTP address")
    add("-tw", "--web-service-url-tls", default="", metavar="URL", help="the brokers' HTTPS address")
    add("-ub", "--broker-service-url", default="", metavar="URL", help="the brokers' address for clients")
    add("-tb", "--broker-service-url-tls", default="", metavar="URL", help="the brokers' TLS address for clients")
    add("-te", "--tls-enable", action="store_true", help="other clusters connect by TLS")
    add("-pu", "--proxy-url", default="", metavar="URL", help="the proxy through which other clusters connect")
    add("-pp", "--proxy-protocol", default="", choices=["SNI"], help="how that proxy routes")
    add("--auth-plugin", default="", metavar="CLASS", help="how other clusters authenticate")
    add("--auth-parameters", default="", metavar="TEXT", help="their credentials")
    add(
        "-bn",
        "--default-namespace-bundle-number",
        type=_number_of_bundles,
        default=16,
        metavar="N",
        help="bundles of public/default (16)",
    )
    add("--initial-num-transaction-coordinators", type=_positive, default=16, metavar="N", help="(16)")
    add(
        "--initial-num-stream-storage-containers",
        type=_not_negative,
        default=16,
        metavar="N",
        help="of BookKeeper's stream storage, which nothing here uses (16)",
    )
    add("--log-level", default="WARNING", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.set_defaults(run=run)


def _add_stores(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the metadata stores, each also under the names that it had in earlier versions of Pulsar."""
    stores = parser.add_argument_group("metadata stores")
    stores.add_argument(
        "-md",
        "--metadata-store",
        "-zk",
        "--zookeeper",
        required=True,
        metavar="URL",
        help="the cluster's own store, as in zk:h1:2181,h2:2181/chroot",
    )
    stores.add_argument(
        "-cms",
        "--configuration-metadata-store",
        "-cs",
        "--configuration-store",
        "-gzk",
        "--global-zookeeper",
        default="",
        metavar="URL",
        help="the store that clusters share; the cluster's own if it is not given",
    )
    stores.add_argument(
        "--existing-bk-metadata-service-uri",
        default="",
        metavar="URI",
        help="the BookKeeper cluster to use, as in zk+null://h1:2181;h2:2181/ledgers; without it a new one is made",
    )
    stores.add_argument("--zookeeper-session-timeout-ms", type=_positive, default=30_000, metavar="MS", help="(30000)")


def _cluster_name(text: str) -> str:
    if not _CLUSTER_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no name of letters, digits and -=:._")
    return text


def _not_negative(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to {2**31 - 1}")
    return int(text)


def _positive(text: str) -> int:
    number = _not_negative(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return number


def _number_of_bundles(text: str) -> int:
    """Parses the number of bundles. Apache's tool takes 0 for its default number."""
    number = _not_negative(text) or 16
    if number > BUNDLES_MAX:
        raise argparse.ArgumentTypeError(f"must not be greater than {BUNDLES_MAX}")
    return number


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.programs.cluster_initializing import run_initialization

    return run_initialization(arguments)
