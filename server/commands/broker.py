"""`magnetar broker`: runs one broker of a Pulsar cluster."""

import argparse
import signal
from functools import partial
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, add_server_options
from magnetar.server.process.garbage_collection import uncollected_imports

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar broker --conf broker.conf
  magnetar broker --set clusterName=prod --set metadataStoreUrl=zk:zk1:2181,zk2:2181,zk3:2181
  magnetar broker --set clusterName=c --set metadataStoreUrl=zk:127.0.0.1:2181 \\
      --set brokerServicePort=0 --set webServicePort=0 --ready-json

The keys are those of Apache Pulsar's broker.conf. The cluster's metadata must exist: magnetar
initialize-cluster-metadata, or Apache's tool, makes it once. Brokers of Apache may serve the same cluster at the same
time; all of them must use the modular load manager, which is Apache's default.
"""


def add_parser(commands: "Commands") -> None:
    broker = add_command(
        commands,
        "broker",
        summary="run a broker of a cluster",
        description="Runs one broker, over ZooKeeper and bookies, until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES,
    )
    add_server_options(broker, conf="broker.conf")
    broker.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with uncollected_imports():
        from magnetar.server.process.running import run_app
        from magnetar.server.programs.broker import BrokerApp, BrokerOptions

    options = BrokerOptions(conf=arguments.conf, overrides=dict(arguments.set), ready_json=arguments.ready_json)
    ask_to_stop = partial(signal.raise_signal, signal.SIGTERM)
    return run_app(BrokerApp(options, ask_to_stop), log_level=arguments.log_level, log_format=arguments.log_format)
