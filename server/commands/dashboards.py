"""`magnetar dashboards`: writes Grafana dashboards and Prometheus alert rules as files."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar dashboards ./monitoring
  magnetar dashboards /var/lib/grafana/dashboards

A file *.json is a dashboard: Grafana provisions it from a folder or imports it. alerts.yaml holds rules for Prometheus
(rule_files). Files of an earlier version are written over.
"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "dashboards",
        summary="write Grafana dashboards and Prometheus alert rules",
        description="Writes the dashboards and alert rules for brokers and bookies into a folder.",
        epilog=EXAMPLES,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="is made if there is none")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.monitoring.monitoring_files import write_monitoring_files

    try:
        for path in write_monitoring_files(arguments.folder):
            print(path)
    except OSError as error:
        print(f"magnetar dashboards: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
