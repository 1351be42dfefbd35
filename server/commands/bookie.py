"""`magnetar bookie`: runs one bookie of a BookKeeper cluster."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, add_server_options
from magnetar.server.process.garbage_collection import uncollected_imports

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar bookie --conf bk_server.conf
  magnetar bookie --set metadataServiceUri='zk+hierarchical://zk1:2181;zk2:2181/ledgers' \\
      --set journalDirectories=/journal/bk --set ledgerDirectories=/disk1/bk,/disk2/bk
  magnetar bookie --set bookiePort=0 --set bookieId=b1 --set advertisedAddress=127.0.0.1 --ready-json

The keys are those of Apache BookKeeper's bk_server.conf. The cluster's metadata must exist: `magnetar bk
initnewcluster`, or Apache's tool, makes it once. Brokers, clients and tools of Apache see no difference to a bookie of
theirs; the files on disk are our own, so a bookie's folders cannot be handed from one to the other.
"""

MISMATCH_HELP = """\
when the start stops because of a cookie:
  A bookie that came up without entries that it has acknowledged would break the promise of the log. So a cookie in
  ZooKeeper and in each folder says which folders belong to which bookie of which cluster, and any difference stops the
  start; the message says what differs and nothing was changed. Mostly a disk is not mounted or a path is misspelt. With
  allowStorageExpansion=true ledger directories may be added at the end of the list.
"""


def add_parser(commands: "Commands") -> None:
    bookie = add_command(
        commands,
        "bookie",
        summary="run a bookie of a BookKeeper cluster",
        description="Runs one bookie until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES + "\n" + MISMATCH_HELP,
    )
    add_server_options(bookie, conf="bk_server.conf")
    bookie.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with uncollected_imports():
        from magnetar.server.process.running import run_app
        from magnetar.server.programs.bookie.bookie_program import BookieApp, BookieOptions

    options = BookieOptions(conf=arguments.conf, overrides=dict(arguments.set), ready_json=arguments.ready_json)
    return run_app(BookieApp(options), log_level=arguments.log_level, log_format=arguments.log_format)
