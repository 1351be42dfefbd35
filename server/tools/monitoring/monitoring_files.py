"""The dashboards and alert rules as files."""

import json
from pathlib import Path

from magnetar.server.tools.monitoring.alerts import ALERTS, rules_text
from magnetar.server.tools.monitoring.boards import BOARDS
from magnetar.server.tools.monitoring.grafana import dashboard_json


def monitoring_files() -> dict[str, str]:
    """Returns name -> content of each file."""
    boards = {board.file: json.dumps(dashboard_json(board), indent=2) + "\n" for board in BOARDS}
    return {**boards, "alerts.yaml": rules_text(ALERTS)}


def write_monitoring_files(folder: Path) -> list[Path]:
    """Writes the files, over older ones, into a folder, which is made if there is none. Returns their paths. Raises
    OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in monitoring_files().items():
        path = folder / name
        path.write_text(text)
        written.append(path)
    return written
