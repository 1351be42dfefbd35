"""The command line: parses, loads the configuration, runs the server, and turns faults into one sentence and a code.

Exit codes: 0 stopped as asked, 1 could not start or failed, 2 wrong usage.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar import __version__

if TYPE_CHECKING:
    from server.app import StandaloneOptions

EXAMPLES = """\
examples:
  magnetar standalone                                  # ports 6650 and 8080, data in ./data
  magnetar standalone --data-dir /srv/pulsar --broker-port 0 --web-port 0 --ready-json
  magnetar standalone --conf standalone.conf --set managedLedgerCacheSizeMB=128
"""

DAMAGE_HELP = """\
when the start stops because a file is damaged:
  The message names the file and the offset; nothing was changed. Copy the data folder first. A journal that is torn
  at its very end is cut by itself: those entries were never acknowledged. Damage in the middle means that the disk
  returned other bytes than were written. Put the file back from a copy, or start once with
  --set skipDamagedJournal=true: all that can still be read is kept, and what is given up is logged.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="magnetar",
        description="A Pulsar broker and BookKeeper log in one process.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"magnetar {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    standalone = commands.add_parser(
        "standalone",
        help="run broker, bookie and metadata in one process",
        description="Runs broker, bookie and metadata in one process until SIGTERM or Ctrl-C.",
        epilog=EXAMPLES + "\n" + DAMAGE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    standalone.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR", help="default: ./data")
    standalone.add_argument("--broker-port", type=port_number, metavar="N", help="binary protocol; 0 = any free port")
    standalone.add_argument("--web-port", type=port_number, metavar="N", help="HTTP; 0 = any free port")
    standalone.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    standalone.add_argument("--conf", type=Path, metavar="FILE", help="a broker.conf or standalone.conf")
    standalone.add_argument(
        "--set", action="append", default=[], type=assignment, metavar="KEY=VALUE", help="overrides a key of --conf"
    )
    standalone.add_argument("--ready-json", action="store_true", help="print the ready line as JSON, for programs")
    standalone.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    return parser


def port_number(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port (0 to 65535)")
    return int(text)


def assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key.strip(), value.strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(
        level=arguments.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    return run_standalone(arguments)


def run_standalone(arguments: argparse.Namespace) -> int:
    from server.app import StandaloneOptions, StartError

    options = StandaloneOptions(
        data_dir=arguments.data_dir.absolute(),
        host=arguments.host,
        broker_port=arguments.broker_port,
        web_port=arguments.web_port,
        conf=arguments.conf,
        overrides=dict(arguments.set),
        ready_json=arguments.ready_json,
    )
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve(options))
    except StartError as error:
        print(f"magnetar: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop where it exists: a production choice, nothing depends on it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


async def serve(options: "StandaloneOptions") -> None:
    """Runs until SIGTERM or SIGINT, which are also heard while the server is still starting."""
    from server.app import Standalone

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = Standalone(options)
    try:
        await app.start()
        print(app.ready_line(), flush=True)
        await stop.wait()
    finally:
        await app.stop()
