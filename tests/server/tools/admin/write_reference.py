"""Writes docs/admin/REFERENCE.md anew: `python -m tests.server.tools.admin.write_reference`."""

from pathlib import Path

from magnetar.server.tools.admin.reference_rules import reference

if __name__ == "__main__":
    (Path(__file__).parents[4] / "docs" / "admin" / "REFERENCE.md").write_text(reference())
