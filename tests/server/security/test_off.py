"""A server whose security is off imports nothing of it, so that it costs no memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.server.config.broker_config import load_config
from magnetar.server.network.ports import PortChoice, reserve_ports
from magnetar.server.programs.broker_parts import make_security

LOADED = """
import sys
import magnetar.server.programs.standalone, magnetar.server.commands.main
from magnetar.server.commands import standalone, tokens
heavy = ("jwt", "cryptography", "passlib", "bcrypt", "ssl")
print(sorted(name for name in sys.modules if name.startswith(heavy) or name.startswith("magnetar.server.security.")))
"""


@pytest.mark.process
def test_a_server_without_security_loads_its_settings_and_errors_only() -> None:
    """`ssl` is loaded by asyncio. Our own modules and the large libraries are not loaded."""
    root = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", LOADED], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['magnetar.server.security.security_errors', 'ssl']"


def test_it_is_off_by_default(tmp_path: Path) -> None:
    config = load_config(None, {})
    assert make_security(config, None, None) is None  # type: ignore[arg-type]
    ports = reserve_ports(config, PortChoice(broker=0, web=0), "127.0.0.1", "127.0.0.1")
    ports.close()
    assert (ports.urls.broker_tls, ports.urls.web_tls) == ("", "")
    assert [each.tls for each in (*ports.broker, *ports.web)] == [None, None]
