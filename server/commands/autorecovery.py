"""`magnetar autorecovery`: finds ledgers that lack copies in a BookKeeper cluster, and makes new copies."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, add_server_options
from magnetar.server.process.garbage_collection import uncollected_imports

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar autorecovery --conf bk_server.conf
  magnetar autorecovery --set metadataServiceUri='zk+hierarchical://zk1:2181;zk2:2181/ledgers' \\
      --set lostBookieRecoveryDelay=600
  magnetar autorecovery --conf bk_server.conf --set httpServerEnabled=true --set httpServerPort=8000

The keys are those of Apache BookKeeper's bk_server.conf. Any number of these processes, Apache's among them, share the
work; one of them is the auditor. A bookie runs the same inside unless autoRecoveryDaemonEnabled=false. Watch it with
`magnetar bk listunderreplicated` and `magnetar bk whoisauditor`; `magnetar bk autorecovery --disable` halts them all.
With httpServerEnabled it has /metrics and /heartbeat.
"""


def add_parser(commands: "Commands") -> None:
    autorecovery = add_command(
        commands,
        "autorecovery",
        summary="heal the ledgers of lost bookies in a cluster",
        description="Runs the auditor's election and a replication worker until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES,
    )
    add_server_options(autorecovery, conf="bk_server.conf")
    autorecovery.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with uncollected_imports():
        from magnetar.server.process.running import run_app
        from magnetar.server.programs.autorecovery import AutoRecoveryApp, AutoRecoveryOptions

    options = AutoRecoveryOptions(conf=arguments.conf, overrides=dict(arguments.set), ready_json=arguments.ready_json)
    return run_app(AutoRecoveryApp(options), log_level=arguments.log_level, log_format=arguments.log_format)
