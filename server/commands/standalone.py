"""`magnetar standalone`: runs broker, bookie and metadata in one process."""

import argparse
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, add_server_options, port_or_off
from magnetar.server.process.garbage_collection import uncollected_imports

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar standalone                                  # ports 6650 and 8080, data in ./data
  magnetar standalone --data-dir /srv/pulsar --broker-port 0 --web-port 0 --ready-json
  magnetar standalone --conf standalone.conf --set managedLedgerCacheSizeMB=128
  magnetar standalone --broker-port off --broker-port-tls 6651 --web-port off --web-port-tls 8443 \\
      --set tlsCertificateFilePath=broker.cert.pem --set tlsKeyFilePath=broker.key-pk8.pem
"""

DAMAGE_HELP = """\
when the start stops because a file is damaged:
  The message names the file and the offset; nothing was changed. Copy the data folder first. A journal that is torn
  at its very end is cut by itself: those entries were never acknowledged. Damage in the middle means that the disk
  returned other bytes than were written. Put the file back from a copy, or start once with
  --set skipDamagedJournal=true: all that can still be read is kept, and what is given up is logged.
  Metadata that is older than the ledgers, or does not belong to them, is refused as well. Put the right files back, or
  start once with --set acceptMetadataGeneration=N as the message says: no ledger is deleted then.
"""


def add_parser(commands: "Commands") -> None:
    standalone = add_command(
        commands,
        "standalone",
        summary="run broker, bookie and metadata in one process",
        description="Runs broker, bookie and metadata in one process until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES + "\n" + DAMAGE_HELP,
    )
    standalone.add_argument("--data-dir", type=_folder, default=Path("data"), metavar="DIR", help="default: ./data")
    for option, what in (
        ("--broker-port", "binary protocol; 0 = any free port, off = none"),
        ("--broker-port-tls", "binary protocol over TLS (off unless it is set)"),
        ("--web-port", "HTTP; 0 = any free port, off = none"),
        ("--web-port-tls", "HTTPS (off unless it is set)"),
    ):
        standalone.add_argument(option, type=port_or_off, metavar="N", help=what)
    standalone.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    standalone.add_argument(
        "--end-with-input", action="store_true", help="stop when the standard input ends, as a parent process may want"
    )
    add_server_options(standalone, conf="broker.conf or standalone.conf")
    standalone.set_defaults(run=run)


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("is empty: name a folder, './' for the one that you are in")
    return Path(text)


def run(arguments: argparse.Namespace) -> int:
    with uncollected_imports():
        from magnetar.server.process.running import run_app
        from magnetar.server.process.supervision import end_with_input
        from magnetar.server.programs.standalone import Standalone, StandaloneOptions

    options = StandaloneOptions(
        data_dir=arguments.data_dir.absolute(),
        host=arguments.host,
        broker_port=arguments.broker_port,
        broker_port_tls=arguments.broker_port_tls,
        web_port=arguments.web_port,
        web_port_tls=arguments.web_port_tls,
        conf=arguments.conf,
        overrides=dict(arguments.set),
        ready_json=arguments.ready_json,
    )
    if arguments.end_with_input:
        end_with_input()
    ask_to_stop = partial(signal.raise_signal, signal.SIGTERM)
    return run_app(Standalone(options, ask_to_stop), log_level=arguments.log_level, log_format=arguments.log_format)
