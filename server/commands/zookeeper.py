"""`magnetar zookeeper`: runs a ZooKeeper server of one node."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, add_server_options, port_number
from magnetar.server.process.garbage_collection import uncollected_imports

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar zookeeper                                   # port 2181 of this machine, data in ./data/zookeeper
  magnetar zookeeper --conf zoo.cfg
  magnetar zookeeper --data-dir /var/lib/zk --port 0 --ready-json
  magnetar zookeeper --set clientPortAddress=0.0.0.0 --set 4lw.commands.whitelist=ruok,mntr,stat

The keys are those of Apache ZooKeeper's zoo.cfg. Clients, brokers and bookies of Apache see no difference to a server
of theirs; the file on disk is our own.

what it is not:
  One node, on one disk. When the machine is gone, so is the metadata of the whole cluster, and without metadata nobody
  finds the data of the bookies again. Production over several machines takes a real ensemble of three or five servers.
  This one is for one machine, for tests and for trying a cluster.
"""

DAMAGE_HELP = """\
when the start stops because of damage:
  A record that was lost unnoticed could cost whole topics, so a file that is not exactly what was acknowledged stops
  the start, and nothing is changed. Put the right files back, or start once with --set acceptMetadataGeneration=N as
  the message says: the records of that generation count then, and later ones are lost.
"""


def add_parser(commands: "Commands") -> None:
    zookeeper = add_command(
        commands,
        "zookeeper",
        summary="run a ZooKeeper server of one node",
        description="Runs a server that speaks ZooKeeper's protocol over one durable file, until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES + "\n" + DAMAGE_HELP,
    )
    zookeeper.add_argument("--data-dir", metavar="DIR", help="overrides dataDir (default: ./data/zookeeper)")
    zookeeper.add_argument("--port", type=port_number, metavar="N", help="overrides clientPort; 0 = any free port")
    add_server_options(zookeeper, conf="zoo.cfg")
    zookeeper.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with uncollected_imports():
        from magnetar.server.process.running import run_app
        from magnetar.server.programs.zookeeper import ZooKeeperApp, ZooKeeperOptions

    overrides = dict(arguments.set)
    if arguments.data_dir:
        overrides["dataDir"] = arguments.data_dir
    if arguments.port is not None:
        overrides["clientPort"] = str(arguments.port)
    options = ZooKeeperOptions(conf=arguments.conf, overrides=overrides, ready_json=arguments.ready_json)
    return run_app(ZooKeeperApp(options), log_level=arguments.log_level, log_format=arguments.log_format)
