"""`magnetar cluster`: starts and supervises the brokers, the bookies and the metadata of a cluster on one machine."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, add_server_options, assignment, port_number
from magnetar.server.process.garbage_collection import uncollected_imports

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar cluster                                     # 2 brokers, 3 bookies, metadata; free ports, data in ./cluster
  magnetar cluster --data-dir /srv/pulsar --brokers 4 --broker-port 6650 --web-port 8080
  magnetar cluster --brokers 3 --bookies 4 --set managedLedgerDefaultAckQuorum=2 --ready-json
  magnetar cluster --metadata zk1:2181,zk2:2181,zk3:2181/pulsar

All of it is one process tree on one machine, and uses as many cores as there are brokers and bookies. A child that dies
is started again; the topics of a broker that died move to the others at once. Ctrl-C stops brokers, bookies and
metadata, in this order; a second Ctrl-C kills what is left. Ports are chosen at the first start and kept. The addresses
and pids of what runs stand in the file processes.json of the data folder.
"""


def add_parser(commands: "Commands") -> None:
    cluster = add_command(
        commands,
        "cluster",
        summary="run brokers, bookies and metadata on this machine as a cluster",
        description="Runs a cluster on this machine, each part as a process, until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES,
    )
    cluster.add_argument("--data-dir", type=Path, default=Path("cluster"), metavar="DIR", help="default: ./cluster")
    cluster.add_argument("--brokers", type=_members, default=2, metavar="N", help="how many brokers (default 2)")
    cluster.add_argument("--bookies", type=_members, default=3, metavar="N", help="how many bookies (default 3)")
    cluster.add_argument("--metadata", default="", metavar="URL", help="a ZooKeeper ensemble; default: one of its own")
    cluster.add_argument("--cluster", default="", metavar="NAME", help="the cluster's name (default pulsar-cluster)")
    cluster.add_argument("--broker-port", type=port_number, default=0, metavar="N", help="first broker's; then N+1, …")
    cluster.add_argument("--web-port", type=port_number, default=0, metavar="N", help="first broker's HTTP port")
    cluster.add_argument("--host", default="127.0.0.1", metavar="H", help="address of the brokers (default 127.0.0.1)")
    add_server_options(cluster, conf="broker.conf, for every broker")
    cluster.add_argument("--bookie-conf", type=Path, metavar="FILE", help="a bk_server.conf, for every bookie")
    cluster.add_argument(
        "--bookie-set",
        action="append",
        default=[],
        type=assignment,
        metavar="KEY=VALUE",
        help="overrides a key of --bookie-conf",
    )
    cluster.set_defaults(run=run)


def _members(text: str) -> int:
    from magnetar.server.programs.cluster.cluster_rules import MEMBERS_MAX

    if not text.isdecimal() or not 1 <= int(text) <= MEMBERS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {MEMBERS_MAX}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    with uncollected_imports():
        from magnetar.server.process.running import run_app
        from magnetar.server.programs.cluster.cluster_rules import Wishes
        from magnetar.server.programs.cluster.supervisor import ClusterApp, ClusterOptions

    options = ClusterOptions(
        data_dir=arguments.data_dir.absolute(),
        wishes=Wishes(
            brokers=arguments.brokers,
            bookies=arguments.bookies,
            cluster=arguments.cluster,
            metadata_url=arguments.metadata,
            broker_port=arguments.broker_port,
            web_port=arguments.web_port,
        ),
        host=arguments.host,
        conf=arguments.conf.absolute() if arguments.conf else None,
        overrides=dict(arguments.set),
        bookie_conf=arguments.bookie_conf.absolute() if arguments.bookie_conf else None,
        bookie_overrides=dict(arguments.bookie_set),
        ready_json=arguments.ready_json,
        log_level=arguments.log_level,
        log_format=arguments.log_format,
    )
    return run_app(ClusterApp(options), log_level=arguments.log_level, log_format=arguments.log_format)
