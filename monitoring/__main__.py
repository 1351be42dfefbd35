"""`python -m monitoring` writes the dashboards and alert rules to `docs/monitoring`."""

import json
from pathlib import Path

from monitoring.alerts import ALERTS, rules_text
from monitoring.boards import BOARDS
from monitoring.grafana import dashboard_json

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "monitoring"


def files() -> dict[str, str]:
    """Returns name -> content of each file."""
    boards = {board.file: json.dumps(dashboard_json(board), indent=2) + "\n" for board in BOARDS}
    return {**boards, "alerts.yaml": rules_text(ALERTS)}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
